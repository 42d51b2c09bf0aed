// Growing delays after wrong passphrases, and one password hash at a time.

import HostSystem

/// Runs one attempt at a time, and delays the next one by 1, 2, 4 … 30 s after each failure in a row.
package final class UnlockThrottle: Sendable {
    /// The number of attempts that may wait for the running one.
    package static let longestQueue = 8

    private struct State {
        var isRunning = false
        var waiting = 0
        var failures = 0
        var notBefore: UInt64 = 0
        var isClosed = false
    }

    private let state = Lock(State())
    private let changed = Condition()
    private let unit: UInt64

    /// A throttle without failures.
    package convenience init() {
        self.init(unit: 1_000_000_000)
    }

    /// - Parameter unit: the first delay, in nanoseconds.
    init(unit: UInt64) {
        self.unit = unit
    }

    /// The delay after this many failures in a row, in nanoseconds.
    func delay(afterFailures failures: Int) -> UInt64 {
        failures == 0 ? 0 : min(unit << UInt64(min(failures - 1, 5)), 30 * unit)
    }

    /// Failures in a row, and nanoseconds until the next attempt runs.
    package var status: (failures: Int, remaining: UInt64) {
        let now = monotonicNanoseconds()
        return state.withLock { state in (state.failures, state.notBefore > now ? state.notBefore - now : 0) }
    }

    /// Called when the mount ends. No attempt begins any more, and waiting ones are refused at once.
    package func close() {
        state.withLock { $0.isClosed = true }
        changed.broadcast()
    }

    /// Whether `close` has been called.
    package var isClosed: Bool { state.withLock { $0.isClosed } }

    /// Runs `attempt` when its turn has come and the delay is over.
    ///
    /// - Parameter countsAsFailure: whether an error says that the credential was wrong.
    /// - Returns: nil if too many attempts are already waiting, or the throttle has been closed.
    package func attempt<Result: ~Copyable, Failure: Error>(
        countsAsFailure: (Failure) -> Bool, _ attempt: () throws(Failure) -> Result
    ) throws(Failure) -> Result? {
        guard enter() else { return nil }
        let result: Result
        do throws(Failure) {
            result = try attempt()
        } catch {
            leave(failed: countsAsFailure(error) ? true : nil)
            throw error
        }
        leave(failed: false)
        return result
    }

    /// The result of checking the state for a waiting attempt. Nil means keep waiting.
    private enum Turn {
        case entered
        case refused
        /// The values behind the deadline have changed, so compute it again.
        case changed
    }

    private func enter() -> Bool {
        let admitted = state.withLock { state in
            guard state.waiting < Self.longestQueue, !state.isClosed else { return false }
            state.waiting += 1
            return true
        }
        guard admitted else { return false }
        while true {
            let (running, notBefore) = state.withLock { ($0.isRunning, $0.notBefore) }
            let turn = state.wait(on: changed, until: running ? nil : notBefore) { state -> Turn? in
                if state.isClosed {
                    state.waiting -= 1
                    return .refused
                }
                if !state.isRunning, state.notBefore <= monotonicNanoseconds() {
                    state.isRunning = true
                    state.waiting -= 1
                    return .entered
                }
                return state.isRunning != running || state.notBefore != notBefore ? .changed : nil
            }
            switch turn {
            case .entered: return true
            case .refused: return false
            case .changed, nil: continue
            }
        }
    }

    private func leave(failed: Bool?) {
        let now = monotonicNanoseconds()
        state.withLock { state in
            state.isRunning = false
            switch failed {
            case true?:
                state.failures += 1
                state.notBefore = now + delay(afterFailures: state.failures)
            case false?:
                state.failures = 0
                state.notBefore = 0
            case nil: break
            }
        }
        changed.broadcast()
    }
}
