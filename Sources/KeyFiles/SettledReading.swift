// Reads a keybag and this machine's record of it until they agree, or a contradiction is certain.

/// What readings of a keybag and of the state file have given.
///
/// A command that changes the keybag writes the keybag and then the state file, under a lock. A reading in between, or one
/// that begins before and ends after, sees a keybag of one time and a state file of another. So a contradiction counts only if
/// a second reading has it too, made while no command changes them.
package enum SettledReading<Value> {
    /// The two agree.
    case agreed(Value)
    /// They contradict each other, and no command was changing them.
    case refused(Value)
    /// They contradict each other, and a command was changing them all the time.
    case changing(Value)

    /// Whether a command can change the two.
    package enum Writer {
        /// None can, as long as the value lives.
        case none(AnyObject?)
        /// One holds the lock.
        case other
    }

    /// Reads until the two agree or a contradiction is certain.
    ///
    /// - Parameters:
    ///   - isRefused: whether a reading is a contradiction.
    ///   - read: reads the keybag and then the state file.
    ///   - writer: takes the lock if it is free.
    ///   - pause: waits a moment; false if the caller's patience is at its end.
    package static func settle<Failure: Error>(
        isRefused: (Value) -> Bool, read: () throws(Failure) -> Value, writer: () -> Writer, pause: () -> Bool
    ) throws(Failure) -> SettledReading {
        while true {
            let value = try read()
            guard isRefused(value) else { return .agreed(value) }
            switch writer() {
            case .none(let lock):
                defer { withExtendedLifetime(lock) {} }
                let again = try read()
                return isRefused(again) ? .refused(again) : .agreed(again)
            case .other:
                guard pause() else { return .changing(value) }
            }
        }
    }
}
