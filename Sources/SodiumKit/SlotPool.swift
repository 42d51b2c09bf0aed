// A slab allocator for slots of one size in locked memory. They are wiped before they are free again.

internal import CSodium
internal import HostSystem

/// Slots of one size, cut from guarded mappings. These are made when needed and kept.
///
/// Thread-safe. A new slot is always zero.
@safe final class SlotPool: @unchecked Sendable {
    private struct State: ~Copyable {
        var slabs: [Slab] = []
        var free: [Slot] = []
    }

    /// Holds a mapping. A mapping is noncopyable and cannot be an array's element itself.
    private final class Slab {
        let mapping: GuardedMapping
        init(_ mapping: consuming GuardedMapping) { self.mapping = mapping }
    }

    let slotSize: Int
    private let slabSize: Int
    private let state = Lock(State())

    /// - Parameter slotSize: in bytes. A multiple of 64 gives slots aligned to 64.
    init(slotSize: Int, slabSize: Int) {
        precondition(slotSize > 0 && slabSize >= slotSize)
        self.slotSize = slotSize
        self.slabSize = slabSize
    }

    /// A zeroed slot. The caller gives it back with `release`.
    func take() throws(SodiumError) -> Slot {
        try state.withLock { state throws(SodiumError) in
            if let slot = state.free.popLast() { return slot }
            let slab = Slab(try GuardedMapping(minimum: slabSize))
            let count = slab.mapping.byteCount / slotSize
            state.free.reserveCapacity(state.free.count + count)
            for index in (1..<max(count, 1)).reversed() {
                // In bounds: index < byteCount / slotSize.
                state.free.append(unsafe Slot(pointer: slab.mapping.start + index * slotSize))
            }
            state.slabs.append(slab)
            return unsafe Slot(pointer: slab.mapping.start)
        }
    }

    /// Wipes the slot, then makes it free.
    func release(_ slot: Slot) {
        unsafe sodium_memzero(slot.pointer, slotSize)
        state.withLock { state in state.free.append(slot) }
    }
}

/// The process's slots by size.
enum Slots {
    /// 32-byte keys: 2,048 in a slab.
    static let keys = SlotPool(slotSize: 32, slabSize: 65_536)
    /// Expanded cipher keys (IPsec-MB's 1,008 bytes are the largest): 64 in a slab.
    static let ciphers = SlotPool(slotSize: 1024, slabSize: 65_536)
    /// One per thread, for the state of running hashes and ciphers: 64 in a slab, so that the first slab suffices.
    static let scratch = SlotPool(slotSize: ThreadScratch.size, slabSize: 65_536)
    /// One per thread that uses OpenSSL: 32 in a slab.
    static let contexts = SlotPool(slotSize: OpenSSL.contextSize, slabSize: 65_536)
    static let bytes256 = SlotPool(slotSize: 256, slabSize: 16_384)
    static let bytes1024 = SlotPool(slotSize: 1024, slabSize: 16_384)
    static let bytes4096 = SlotPool(slotSize: 4096, slabSize: 16_384)

    /// The pool for this many bytes. Nil asks for a mapping of its own.
    static func pool(for byteCount: Int) -> SlotPool? {
        switch byteCount {
        case ...32: keys
        case ...256: bytes256
        case ...1024: bytes1024
        case ...4096: bytes4096
        default: nil
        }
    }
}
