// What a rotation of a mounted volume must know before former class keys leave the keybag.

internal import HostSystem
internal import VolumeFormat

/// Operations that wrap a file key and store the header afterwards, and the moves that a look through the store can miss.
struct StoringOperations {
    /// Raised when keys were taken in.
    var turn: UInt64 = 0
    /// The running operations, by the turn in which they began.
    var running: [UInt64: Int] = [:]
    /// Raised when headers that may name former keys begin to move in the store, or have come to a place. It begins at a random
    /// number, so that two mounts, one after the other, do not seem to have the same number of moves.
    var moves = UInt64.random(in: 0..<1 << 60)
    /// The number of moves that have not ended.
    var moving = 0
}

extension KeyRing {
    /// The keys in memory, or last in memory, that new wraps do not use.
    package var formerKeys: Set<FormerKey> {
        withState { held in
            var former: Set<FormerKey> = []
            for protectionClass in ProtectionClass.allCases {
                let seen = held.seenGenerations[Int(protectionClass.rawValue)] ?? []
                for generation in seen where generation != held.generation(of: protectionClass) {
                    former.insert(FormerKey(number: protectionClass.rawValue, generation: generation))
                }
            }
            return former
        }
    }

    /// Runs an operation that wraps a file key and stores the header afterwards.
    package func storing<Result: ~Copyable, Failure: Error>(
        _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let turn = storing.withLock { state in
            state.running[state.turn, default: 0] += 1
            return state.turn
        }
        defer {
            storing.withLock { state in
                if let count = state.running[turn] { state.running[turn] = count == 1 ? nil : count - 1 }
                // The header may name a former key, and be where a look has been.
                if turn < state.turn { state.moves += 1 }
            }
        }
        return try body()
    }

    /// Runs a move, in the store, of an object whose headers may name former keys.
    package func movingHeaders<Result: ~Copyable, Failure: Error>(
        _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        storing.withLock { state in
            state.moves += 1
            state.moving += 1
        }
        defer { storing.withLock { $0.moving -= 1 } }
        return try body()
    }

    /// The number of such moves so far, from a start of its own in each mount. Nil while one runs, or an operation that began before
    /// the present keys were taken in, and before the first unlock, when nobody knows which headers name former keys.
    ///
    /// If it is the same before and after a look through the store, the look has missed no header that names a former key, except
    /// of files that were open when it began.
    package var quietMoves: UInt64? {
        let isKnown = withState { held in
            ProtectionClass.allCases.allSatisfy { held.seenGenerations[Int($0.rawValue)] != nil }
        }
        guard isKnown else { return nil }
        return storing.withLock { state in
            let isQuiet = state.moving == 0 && !state.running.keys.contains { $0 < state.turn }
            return isQuiet ? state.moves : nil
        }
    }
}
