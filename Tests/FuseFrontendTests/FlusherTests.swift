// Tests the flusher on a real mount: dirty pages reach the volume in every state, and no request waits for ever.
// mkdtemp gives what is unwrapped here. swift-format-ignore-file: NeverForceUnwrap

import FileContents
import Glibc
import Keybag
import HostSystem
import ProtectedVolume
import Testing
import VolumeFormat

@testable import FuseFrontend

@Suite(.serialized, .enabled(if: hasFuse, "/dev/fuse is missing or closed to this user"))
struct FlusherTests {
    private static let size = 4 << 20

    /// A file of class C with dirty pages, open at the handle that is given.
    private func withDirtyFile(_ body: (MountedVolume, _ path: String, _ handle: Int32, Node) throws -> Void) throws {
        let volume = try MountedVolume()
        let path = volume.path + "/file"
        let handle = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o644)
        let bytes = [UInt8](repeating: 7, count: Self.size)
        unsafe #expect(write(handle, bytes, bytes.count) == bytes.count)
        let node = try volume.volume.lookup(Array("file".utf8), in: volume.volume.root).node
        try body(volume, path, handle, node)
        close(handle)
        volume.volume.forget(node, count: 1)
        #expect(try volume.end())
    }

    private var soon: UInt64 { monotonicNanoseconds() + 60_000_000_000 }

    @Test func bringsWhatIsDirty() throws {
        try withDirtyFile { volume, _, _, node in
            let flusher = volume.frontend.calls.flusher
            #expect(flusher.flush([node, node], until: soon) == [node.number])
            #expect(volume.volume.content(of: node)?.size == UInt64(Self.size))
            volume.frontend.settle()
            #expect(volume.frontend.statistics.openHandles == [.completeUntilFirstUserAuthentication: 1])
            // RELEASE comes some time after close(2).
            let end = soon
            while node.openHandles != 1, monotonicNanoseconds() < end { usleep(1000) }
            #expect(node.openHandles == 1)
        }
    }

    @Test func bringsItWhileTheVolumeIsBeingLocked() throws {
        try withDirtyFile { volume, path, handle, node in
            #expect(setClass(path, "complete") == 0)
            let bytes = [UInt8](repeating: 8, count: Self.size)
            unsafe #expect(pwrite(handle, bytes, bytes.count, off_t(Self.size)) == bytes.count)
            #expect(volume.volume.beginLock(.complete))
            #expect(unsafe open(path, O_RDONLY) == -1 && errno == EACCES)
            #expect(volume.frontend.calls.flusher.flush([node], until: soon) == [node.number])
            #expect(volume.volume.content(of: node)?.size == UInt64(2 * Self.size))
            try volume.volume.beginLateRecords(.complete)
            #expect(volume.volume.finishLock(.complete, sweeping: false))
            #expect(volume.lines.withLock { $0.filter { $0.contains("refused to open") }.count } == 1)
            try volume.unlock()
        }
    }

    @Test func anUnlinkedFileToo() throws {
        try withDirtyFile { volume, path, _, node in
            unsafe #expect(unlink(path) == 0)
            let flushed = volume.frontend.calls.flusher.flush([node], until: soon)
            #expect(flushed == (Flusher.isLockFree ? [node.number] : []))
            #expect(volume.volume.content(of: node)?.size == UInt64(Self.size))
        }
    }

    @Test func whereNobodyWritesThereIsNothingToDo() throws {
        let volume = try MountedVolume()
        #expect(put(volume.path + "/file", "text") == 0)
        let node = try volume.volume.lookup(Array("file".utf8), in: volume.volume.root).node
        // RELEASE comes some time after close(2).
        while node.openHandles > 0 { usleep(1000) }
        #expect(volume.frontend.calls.flusher.flush([node], until: 0) == [node.number])
        volume.volume.forget(node, count: 1)
        #expect(try volume.end())
    }
}
