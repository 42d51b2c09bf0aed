// The bridge through real system calls on a real mount of a file system in memory.

import Glibc
import HostSystem
import Testing

@testable import FuseBridge

private let hasFuse = unsafe access("/dev/fuse", R_OK | W_OK) == 0

/// With all that libfuse or the mount table could take for something else, and bytes that are no text.
private let source = Array("memory,t\\e st\n,".utf8) + [0xFF]

/// A mount of `system` at a new directory, gone when the closure returns.
private func withMount(_ system: MemoryFileSystem, _ body: (String, Session) throws -> Void) throws {
    var template = Array("/tmp/fusebridge.XXXXXX".utf8CString)
    let path = unsafe String(cString: mkdtemp(&template))
    let session = Session(system)
    try session.mount(at: path, source: source, options: ["subtype=bridgetest", "default_permissions"])
    try session.start(workers: 4)
    defer {
        unsafe umount2(path, Int32(MNT_DETACH))
        session.wait()
        session.close()
        unsafe rmdir(path)
    }
    try body(path, session)
}

@Suite(.serialized, .enabled(if: hasFuse, "/dev/fuse is missing or closed to this user"))
struct MountTests {
    @Test func filesRoundTrip() throws {
        let system = MemoryFileSystem()
        try withMount(system) { path, session in
            let table = try MountTable.read()
            #expect(table.last { $0.mountPoint == HostPath(path) }?.source.bytes == Array(source))
            let file = path + "/file"
            let handle = unsafe Glibc.open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            #expect(handle >= 0)
            let data = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ $0 >> 9) }
            unsafe #expect(pwrite(handle, data, data.count, 0) == data.count)
            // FSYNC is not implemented: the kernel takes ENOSYS for success, after writing back.
            #expect(fsync(handle) == 0)
            #expect(session.invalidate(node: 2) == 0)
            #expect((system.state.withLock { $0.files[2]?.data } == data) as Bool)
            #expect(system.state.withLock { $0.writePages } > 0)
            var back = [UInt8](repeating: 0, count: data.count)
            let reads = system.state.withLock { $0.reads }
            unsafe #expect(pread(handle, &back, back.count, 0) == back.count)
            #expect(back == data)
            #expect(system.state.withLock { $0.reads } > reads)
            close(handle)
        }
    }

    /// Without a worker no request would be answered, so the mount fails and is removed.
    @Test func workersWithoutMemory() throws {
        var template = Array("/tmp/fusebridge.XXXXXX".utf8CString)
        let path = unsafe String(cString: mkdtemp(&template))
        let session = Session(MemoryFileSystem())
        try session.mount(at: path, source: Array("memory".utf8), options: ["subtype=bridgetest"])
        session.dataCapacity = 1 << 60
        #expect(throws: SessionError.noResources(errno: ENOMEM)) { try session.start(workers: 3) }
        session.close()
        // Not empty, or in use, where the mount had stayed.
        unsafe #expect(rmdir(path) == 0)
    }

    @Test func killPrivilegesSparesGetXattr() throws {
        let system = MemoryFileSystem()
        try withMount(system) { path, session in
            #expect(session.clearsPrivileges)
            let handle = unsafe Glibc.open(path + "/file", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            let byte: [UInt8] = [1]
            for index in 0..<1000 { unsafe #expect(pwrite(handle, byte, 1, off_t(index * 5000)) == 1) }
            close(handle)
            #expect(system.state.withLock { $0.getXattrs } < 5)
        }
    }

    @Test func directHandlesMap() throws {
        let system = MemoryFileSystem(directIO: true)
        try withMount(system) { path, session in
            let handle = unsafe Glibc.open(path + "/file", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            ftruncate(handle, 8192)
            let byte: [UInt8] = [65]
            unsafe #expect(pwrite(handle, byte, 1, 5) == 1)
            #expect(system.state.withLock { $0.directWrites } == 1)
            guard session.allowsDirectMapping else { return }
            let map = unsafe mmap(nil, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0)!
            unsafe #expect(map != MAP_FAILED)
            unsafe #expect(map.load(fromByteOffset: 5, as: UInt8.self) == 65)
            unsafe map.storeBytes(of: 66, toByteOffset: 6, as: UInt8.self)
            #expect(session.invalidate(node: 2) == 0)
            #expect((system.state.withLock { $0.files[2]?.data[6] } == 66) as Bool)
            unsafe munmap(map, 8192)
            close(handle)
        }
    }

    @Test func directoriesListAndNegativeAnswers() throws {
        let system = MemoryFileSystem()
        try withMount(system) { path, _ in
            for index in 0..<500 { close(unsafe Glibc.open(path + "/name\(index)", O_RDWR | O_CREAT, 0o600)) }
            for _ in 0..<2 {
                let directory = unsafe Glibc.opendir(path)!
                var count = 0
                while unsafe Glibc.readdir(directory) != nil { count += 1 }
                unsafe closedir(directory)
                #expect(count == 500)
            }
            #expect(system.state.withLock { $0.opendirs } == 1)
            unsafe #expect(Glibc.access(path + "/none", F_OK) == -1 && errno == ENOENT)
            var status = statvfs()
            let result = unsafe statvfs(path, &status)
            #expect(result == 0 && status.f_blocks == 4711)
        }
    }

    @Test func droppedRepliesAreErrors() throws {
        try withMount(MemoryFileSystem()) { path, _ in
            unsafe #expect(Glibc.mkdir(path + "/directory", 0o700) == -1 && errno == EIO)
        }
    }

    @Test func refusedMountsSaySo() {
        let session = Session(MemoryFileSystem())
        #expect(throws: SessionError.self) {
            try session.mount(at: "/nonexistent/mount/point", source: [], options: ["subtype=bridgetest"])
        }
    }
}
