// Readings of a keybag and a state file beside a command that changes both: every order of their steps.

import Keybag
import SodiumKit
import TestSupport
import Testing
import VolumeFormat

@testable import KeyFiles

@Suite struct SettledReadingTests {
    private final class Token {}

    /// A keybag, a state file, and the lock of the command that changes them.
    private final class Place {
        var bag: Keybag
        var state: StateFile
        var isLocked = false
        /// The lock while a reader has it.
        weak var reader: Token?
        private(set) var step = 0
        let next: Keybag
        /// Steps of the command, in their order, after which it stops or is killed.
        let last: Int

        init(_ bag: Keybag, _ next: Keybag, last: Int = 4) {
            self.bag = bag
            self.next = next
            self.last = last
            state = StateFile(pinning: bag, toleratesEverything: false)
        }

        /// The command: takes the lock, writes the keybag, pins it, gives the lock back.
        func advance() throws {
            guard step < last, step > 0 || reader == nil else { return }
            switch step {
            case 0: isLocked = true
            case 1: bag = next
            case 2: try state.pin(next, acceptingKeybag: true)
            default: isLocked = false
            }
            step += 1
        }
    }

    private struct Reading {
        let bag: Keybag
        let refusal: StateFileError?
    }

    /// Reads, with the command's steps at the places that `schedule` gives: before each of the reader's steps, so many.
    private func read(_ place: Place, _ schedule: [Int], pauses: Int = 8) throws -> SettledReading<Reading> {
        var schedule = schedule[...]
        func others() throws { for _ in 0..<(schedule.popFirst() ?? 0) { try place.advance() } }
        var left = pauses
        return try SettledReading<Reading>.settle {
            $0.refusal != nil
        } read: { () throws(any Error) in
            try others()
            let bag = place.bag
            try others()
            do throws(StateFileError) {
                _ = try StateFile.check(bag, against: place.state)
                return Reading(bag: bag, refusal: nil)
            } catch { return Reading(bag: bag, refusal: error) }
        } writer: {
            try? others()
            if place.isLocked { return .other }
            let token = Token()
            place.reader = token
            return .none(token)
        } pause: {
            try? place.advance()
            left -= 1
            return left > 0
        }
    }

    /// A keybag, its successor with new keys, and one of somebody else with a higher serial. There is no device key, so nothing
    /// vouches for the new keys.
    private func bags() throws -> (first: Keybag, rotated: Keybag, foreign: Keybag) {
        let cost = Argon2Parameters(passes: 1, memory: 8 << 20)
        func secret() throws -> SecretBytes { try SecretBytes(copying: Array("p".utf8).span) }
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret(), cost: cost)
        let keys = try new.bag.unlock(.passphrase(try secret()))
        let all = ProtectionClass.allCases
        let one = try new.bag.rotating(all, passphrase: try secret(), deviceKey: nil, keys: keys).bag
        let other = try new.bag.rotating(all, passphrase: try secret(), deviceKey: nil, keys: keys).bag
        return (new.bag, one, other)
    }

    @Test func noOrderOfTheStepsGivesAFalseAlarm() throws {
        let (first, rotated, _) = try bags()
        var count = 0
        // A reader takes up to five steps; the command's four are before any of them.
        for a in 0...4 {
            for b in 0...(4 - a) {
                for c in 0...(4 - a - b) {
                    for d in 0...(4 - a - b - c) {
                        for e in 0...(4 - a - b - c - d) {
                            let place = Place(first, rotated)
                            guard case .agreed(let reading) = try read(place, [a, b, c, d, e]) else {
                                Issue.record("\([a, b, c, d, e])")
                                continue
                            }
                            #expect(reading.bag.bytes == first.bytes || reading.bag.bytes == rotated.bytes)
                            count += 1
                        }
                    }
                }
            }
        }
        #expect(count == 126)
    }

    @Test func aCommandThatWasKilledBetweenItsStepsIsSeen() throws {
        let (first, rotated, _) = try bags()
        let place = Place(first, rotated, last: 2)
        try place.advance()
        try place.advance()
        place.isLocked = false
        guard case .refused(let reading) = try read(place, []) else {
            Issue.record("not refused")
            return
        }
        #expect(reading.refusal == .otherPublicKey)
    }

    @Test func anExchangedKeybagIsRefusedAndOneBesideALongChangeIsNotJudged() throws {
        let (first, rotated, foreign) = try bags()
        let place = Place(first, rotated)
        place.bag = foreign
        guard case .refused = try read(place, []) else {
            Issue.record("not refused")
            return
        }
        let busy = Place(first, rotated, last: 1)
        busy.bag = foreign
        try busy.advance()
        guard case .changing = try read(busy, []) else {
            Issue.record("judged beside a command")
            return
        }
    }

    @Test func anOlderKeybagIsOlderWhateverItsPublicKey() throws {
        let (first, rotated, _) = try bags()
        let state = StateFile(pinning: rotated, toleratesEverything: false)
        #expect(throws: StateFileError.rolledBack(serial: first.serial, pinned: rotated.serial)) {
            _ = try StateFile.check(first, against: state)
        }
    }
}
