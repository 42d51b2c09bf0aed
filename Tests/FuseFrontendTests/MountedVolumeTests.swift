// The front end on a real mount: files, the lock sequence, times of direct writes, the idle timer.
// mkdtemp, mmap and opendir give what is unwrapped here.
// swift-format-ignore-file: NeverForceUnwrap

import CLinuxShim
import FuseFrontend
import Glibc
import HostSystem
import Keybag
import Testing

private func withVolume(_ options: [String] = [], _ body: (MountedVolume) throws -> Void) throws {
    let volume = try MountedVolume(options: options)
    do {
        try body(volume)
    } catch {
        _ = try volume.end()
        throw error
    }
    #expect(try volume.end())
}

@Suite(.serialized, .enabled(if: hasFuse, "/dev/fuse is missing or closed to this user"))
struct MountedVolumeTests {
    @Test func filesAndNames() throws {
        try withVolume { volume in
            let root = volume.path
            #expect(put(root + "/a", "hello") == 0)
            #expect(get(root + "/a") == "hello")
            unsafe #expect(mkdir(root + "/d", 0o755) == 0)
            unsafe #expect(rename(root + "/a", root + "/d/b") == 0)
            #expect(get(root + "/d/b") == "hello")
            unsafe #expect(link(root + "/d/b", root + "/c") == 0)
            var status = stat()
            unsafe #expect(stat(root + "/c", &status) == 0 && status.st_nlink == 2 && status.st_size == 5)
            unsafe #expect(symlink("d/b", root + "/s") == 0)
            #expect(get(root + "/s") == "hello")
            unsafe #expect(unlink(root + "/d/b") == 0)
            #expect(get(root + "/c") == "hello")
            unsafe #expect(rmdir(root + "/d") == 0)
            #expect(attribute(root, "user.protectfs.state") == "unlocked")
            #expect(attribute(root + "/c", "user.protection") == "completeUntilFirstUserAuthentication")
        }
    }

    @Test func classAClosesAndOpens() throws {
        try withVolume { volume in
            let file = volume.path + "/secret"
            #expect(put(file, "") == 0)
            #expect(setClass(file, "complete") == 0)
            let handle = unsafe open(file, O_RDWR | O_CLOEXEC)
            defer { close(handle) }
            unsafe #expect(write(handle, "secret", 6) == 6)
            #expect(get(handle) == "secret")
            let report = volume.frontend.lock()
            #expect(!report.wasLocked && report.files == 0 && report.cutOff == 1)
            #expect(get(handle) == nil && errno == EACCES)
            unsafe #expect(write(handle, "x", 1) == -1 && errno == EACCES)
            #expect(get(file) == nil && errno == EACCES)
            #expect(lseek(handle, 0, SEEK_END) == -1 && errno == EACCES)
            var status = stat()
            #expect(unsafe fstat(handle, &status) == 0 && status.st_size == 6)
            #expect(attribute(volume.path, "user.protectfs.state") == "locked")
            #expect(volume.frontend.lock().wasLocked)
            try volume.unlock()
            #expect(get(handle) == "secret")
            #expect(volume.events.withLock { $0 } == [.locking, .locked, .unlocked(isFirst: false)])
        }
    }

    @Test func cachedAndMappedPagesAreFlushedAndGone() throws {
        try withVolume { volume in
            let file = volume.path + "/cached"
            #expect(put(file, String(repeating: "a", count: 8192)) == 0)
            let handle = unsafe open(file, O_RDWR | O_CLOEXEC)
            defer { close(handle) }
            let map = unsafe mmap(nil, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0)!
            defer { unsafe munmap(map, 8192) }
            #expect(setClass(file, "A") == 0)
            unsafe #expect(pwrite(handle, "bb", 2, 0) == 2)
            unsafe map.storeBytes(of: UInt8(ascii: "c"), toByteOffset: 4096, as: UInt8.self)
            #expect(volume.frontend.lock().files == 0)
            #expect(get(handle) == nil && errno == EACCES)
            unsafe #expect(pwrite(handle, "zz", 2, 0) == -1 && errno == EACCES)
            try volume.unlock()
            let text = try #require(get(file))
            #expect(text.hasPrefix("bba") && Array(text.utf8)[4096] == UInt8(ascii: "c"))
        }
    }

    @Test func classBGoesOnAndOthersStayOpen() throws {
        try withVolume { volume in
            let (b, c) = (volume.path + "/b", volume.path + "/c")
            #expect(put(b, "b") == 0 && put(c, "c") == 0 && setClass(b, "B") == 0)
            let handle = unsafe open(b, O_RDWR | O_CLOEXEC)
            _ = volume.frontend.lock()
            unsafe #expect(pwrite(handle, "later", 5, 0) == 5)
            #expect(get(handle) == "later")
            #expect(get(b) == nil && errno == EACCES)
            #expect(put(c, "still") == 0 && get(c) == "still")
            close(handle)
            #expect(get(b) == nil && errno == EACCES)
            try volume.unlock()
            #expect(get(b) == "later")
        }
    }

    @Test func directWritesMoveTheTime() throws {
        try withVolume { volume in
            let file = volume.path + "/timed"
            #expect(put(file, "") == 0 && setClass(file, "A") == 0)
            let old = [timespec(tv_sec: 1000, tv_nsec: 0), timespec(tv_sec: 1000, tv_nsec: 0)]
            unsafe #expect(utimensat(AT_FDCWD, file, old, 0) == 0)
            let handle = unsafe open(file, O_RDWR | O_CLOEXEC)
            unsafe #expect(write(handle, "x", 1) == 1)
            var status = stat()
            unsafe #expect(stat(file, &status) == 0 && status.st_mtim.tv_sec > 1000)
            // A program's own time, set after its writes, stays.
            unsafe #expect(write(handle, "y", 1) == 1)
            unsafe #expect(futimens(handle, old) == 0)
            close(handle)
            usleep(100_000)
            unsafe #expect(stat(file, &status) == 0 && status.st_mtim.tv_sec == 1000)
            // Closed before anybody looks.
            let again = unsafe open(file, O_WRONLY | O_APPEND)
            unsafe #expect(write(again, "z", 1) == 1)
            close(again)
            unsafe #expect(stat(file, &status) == 0 && status.st_mtim.tv_sec > 1000)
        }
    }

    @Test func holesShowThroughDirtyPages() throws {
        try withVolume { volume in
            let handle = unsafe open(volume.path + "/sparse", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            defer { close(handle) }
            unsafe #expect(pwrite(handle, "start", 5, 0) == 5)
            unsafe #expect(pwrite(handle, "end", 3, 1 << 20) == 3)
            #expect(lseek(handle, 0, 3) == 0)
            let hole = lseek(handle, 0, 4)
            #expect(hole > 0 && hole <= 8192)
            let data = lseek(handle, hole, 3)
            #expect(data > 1 << 19 && data <= 1 << 20)
            #expect(lseek(handle, (1 << 20) + 3, 3) == -1 && errno == ENXIO)
        }
    }

    @Test func writesTakeSetIDBitsAway() throws {
        try withVolume { volume in
            let file = volume.path + "/suid"
            #expect(put(file, "x") == 0)
            unsafe #expect(chmod(file, 0o4755) == 0)
            var status = stat()
            unsafe #expect(stat(file, &status) == 0 && status.st_mode & 0o4000 != 0)
            unsafe #expect(chown(file, getuid(), getgid()) == 0)
            unsafe #expect(stat(file, &status) == 0 && status.st_mode & 0o4000 == 0)
        }
    }

    @Test func idleIsSaidOnceAndNotInUse() throws {
        try withVolume(["idle=1"]) { volume in
            let file = volume.path + "/busy"
            #expect(put(file, "x") == 0 && setClass(file, "A") == 0)
            // In use for longer than the limit. It may be said, once, whenever this thread itself was held up for as long.
            var heldUp = 0
            var began = monotonicNanoseconds()
            var last = began
            while nanoseconds(from: began, to: last) < 1_500_000_000 {
                usleep(100_000)
                let before = last
                last = monotonicNanoseconds()
                #expect(get(file) == "x")
                if nanoseconds(from: before, to: monotonicNanoseconds()) >= 1_000_000_000 {
                    heldUp += 1
                    began = last
                }
                #expect(volume.events.withLock { $0.count } <= heldUp)
            }
            let before = volume.events.withLock { $0.count }
            let end = monotonicNanoseconds() + 120_000_000_000
            while volume.events.withLock({ $0.count }) == before, monotonicNanoseconds() < end { usleep(10_000) }
            usleep(1_500_000)
            let said = volume.events.withLock { $0 }
            #expect(said.allSatisfy { $0 == .idle } && said.count > before && said.count <= heldUp + 1)
        }
    }

    @Test func manyNamesAreWalked() throws {
        try withVolume { volume in
            for index in 0..<2000 { #expect(put(volume.path + "/file\(index)", "") == 0) }
            for _ in 0..<2 {
                let directory = unsafe try #require(opendir(volume.path))
                var count = 0
                while unsafe readdir(directory) != nil { count += 1 }
                unsafe closedir(directory)
                #expect(count == 2002)
            }
        }
    }
}
