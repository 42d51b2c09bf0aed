// The state file beside the device key: what parses serialises to the same bytes, and asking for a writer is always safe.

import VolumeFormat

enum StateTarget: FuzzTarget {
    static func fuzz(_ bytes: Span<UInt8>) {
        _ = StateFileLayout.writer(ofNewer: bytes)
        guard let state = try? StateFileLayout(parsing: bytes) else { return }
        check(state.serialized().span.hasSameBytes(as: bytes), "the state file is serialised to other bytes")
    }

    static func seeds() -> [[UInt8]] {
        var state = StateFileLayout(
            volumeID: VolumeID(InlineArray(repeating: 7)), serial: 5, publicKey: InlineArray(repeating: 8),
            unlockMAC: InlineArray(repeating: 9), toleratesEverything: false)
        let none = state.serialized()
        state.openEpochs = [1, 0xFFFF_FFFF]
        state.toleratesEverything = true
        let epochs = state.serialized()
        state.openLocks = [StateFileLayout.OpenLock(number: 5, done: 6)]
        state.store = StateFileLayout.Store(inode: 1, born: (2, 3), fileSystem: 4, path: Array("/vault".utf8))
        let unpinned = StateFileLayout(unpinned: VolumeID(InlineArray(repeating: 7)), toleratesEverything: true)
        state.otherFlags = 0x80
        state.readOnlyCompatible = 3
        state.compatible = 5
        state.rest = [1, 2, 3, 4, 5, 6, 7]
        state.writer = ProgramVersion.writer
        return [none, epochs, state.serialized(), unpinned.serialized()]
    }
}
