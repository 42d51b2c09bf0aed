// Renames to a free name on stores without RENAME_NOREPLACE: never over another object.

import Glibc
import Testing

@testable import HostSystem

@Suite struct FreeNameTests {
    enum Way: CaseIterable, Sendable { case store, link, placeholder }

    private final class Place {
        let path: HostPath
        let directory: Descriptor

        init() throws {
            var template = Array("/tmp/protectfs-test.XXXXXX".utf8CString)
            guard unsafe mkdtemp(&template) != nil else { throw Errno.last }
            path = HostPath(bytes: template.map { UInt8(bitPattern: $0) })
            directory = try Descriptor(opening: path, O_RDONLY | O_DIRECTORY)
        }

        deinit {
            for name in (try? FileStatus.names(in: path)) ?? [] {
                let entry = path.appending(bytes: name.bytes)
                _ = unsafe entry.withCString { unsafe rmdir($0) }
                _ = unsafe entry.withCString { unsafe unlink($0) }
            }
            _ = unsafe path.withCString { unsafe rmdir($0) }
        }

        func write(_ name: String, _ text: String) throws {
            try Descriptor(opening: path.appending(name), O_WRONLY | O_CREAT | O_TRUNC, mode: 0o600).write(text)
        }

        func read(_ name: String) throws -> String {
            String(decoding: try readFile(path.appending(name)), as: UTF8.self)
        }

        func rename(_ name: String, _ newName: String, _ way: Way) throws(Errno) {
            switch way {
            case .store:
                unsafe try FreeName.rename(name, in: directory.number, to: newName, in: directory.number)
            case .link:
                unsafe try FreeName.rename(
                    name, in: directory.number, to: newName, in: directory.number, isSupported: false)
            case .placeholder:
                unsafe try FreeName.replacePlaceholder(name, in: directory.number, to: newName, in: directory.number)
            }
        }

        var names: [String] {
            ((try? FileStatus.names(in: path)) ?? []).map(\.description).sorted()
        }
    }

    @Test(arguments: Way.allCases) func files(_ way: Way) throws {
        let place = try Place()
        try place.write("a", "one")
        try place.write("b", "two")
        #expect(throws: Errno.EEXIST) { try place.rename("a", "b", way) }
        #expect(try place.read("a") == "one" && place.read("b") == "two")
        try place.rename("a", "c", way)
        #expect(place.names == ["b", "c"])
        #expect(try place.read("c") == "one")
        #expect(throws: Errno.ENOENT) { try place.rename("none", "d", way) }
        #expect(place.names == ["b", "c"])
    }

    @Test(arguments: [Way.store, .link]) func directories(_ way: Way) throws {
        let place = try Place()
        for name in ["d", "e"] { try FileChange.makeDirectory(place.path.appending(name)) }
        try place.write("f", "")
        #expect(throws: Errno.EEXIST) { try place.rename("d", "e", way) }
        #expect(throws: Errno.EEXIST) { try place.rename("d", "f", way) }
        try place.rename("d", "g", way)
        #expect(place.names == ["e", "f", "g"])
        #expect(throws: Errno.EINVAL) { try place.rename("g", "g/h", way) }
    }

    /// Threads that give different files the same name: exactly one gets it, and no file is lost.
    @Test(arguments: Way.allCases) func races(_ way: Way) throws {
        let place = try Place()
        for round in 0..<50 {
            let won = Lock(0)
            for number in 0..<4 { try place.write("from\(number)", "\(number)") }
            let directory = place.directory.number
            let threads = (0..<4).compactMap { number in
                BackgroundThread(name: "race") {
                    let name = "from\(number)"
                    let target = "to\(round)"
                    let result: Void? =
                        switch way {
                        case .store: unsafe try? FreeName.rename(name, in: directory, to: target, in: directory)
                        case .link:
                            unsafe try? FreeName.rename(
                                name, in: directory, to: target, in: directory, isSupported: false)
                        case .placeholder:
                            unsafe try? FreeName.replacePlaceholder(name, in: directory, to: target, in: directory)
                        }
                    if result != nil { won.withLock { $0 += 1 } }
                }
            }
            for thread in threads { thread.join() }
            #expect(won.withLock { $0 } == 1)
            #expect(place.names.filter { $0.hasPrefix("from") }.count == 3)
        }
    }
}
