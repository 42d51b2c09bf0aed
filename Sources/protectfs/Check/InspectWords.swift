// The words of `inspect` for classes, flags, pages, and the reasons why something is refused.

import CommandSupport
import Control
internal import FileContents
import HostSystem
import KeyFiles
import ProtectedVolume
import VolumeCheck
import VolumeFormat

/// Words and exit codes of `inspect`.
enum InspectWords {
    // MARK: refusals: the one place where a new kind of refusal gets its word, sentence and exit code

    /// The stable word of a refusal.
    static func word(_ error: VolumeError) -> String {
        switch error {
        case .damaged(let damage): damage.rawValue
        case .newer: "newer"
        case .locked: "locked"
        case .store, .refused, .stateFile: "store"
        }
    }

    /// Whether an object verifies, although it is refused: a newer version has made it.
    static func verifies(_ error: VolumeError?) -> Bool {
        switch error {
        case nil, .newer: true
        default: false
        }
    }

    /// A refusal for a person.
    static func sentence(_ error: VolumeError) -> String {
        switch error {
        case .damaged(let damage): "refused: \(reason(damage))"
        case .newer(let object): "not read: made by a newer version of protectfs (\(object.rawValue)), and not damaged"
        case .locked(let protectionClass): "not verified: class \(protectionClass.canonicalName) is closed"
        case .store(let code), .refused(let code): "cannot be read: \(SystemError.reason(of: code.rawValue))"
        case .stateFile: "cannot be read: the state file of the volume is refused"
        }
    }

    /// The exit code of a refusal.
    static func code(_ error: VolumeError) -> ExitCode {
        switch error {
        case .damaged: .volume
        case .newer: .unsupported
        case .locked: .locked
        case .store, .refused, .stateFile: .failure
        }
    }

    /// The stable word of the result with this exit code.
    static func result(_ code: ExitCode) -> String {
        switch code {
        case .success: "verified"
        case .volume: "damaged"
        case .locked: "locked"
        case .busy: "changed"
        case .unsupported: "newer"
        default: "unread"
        }
    }

    private static func reason(_ damage: Damage) -> String {
        switch damage {
        case .header: "the header's MAC is wrong, or a field is not valid"
        case .wrap: "the wrapped file key does not open with the class's key"
        case .block: "a block does not verify with this header, key and place"
        case .length: "the last block does not agree with the length of the file"
        case .zeroPage: "zeros in place of a block"
        case .missingHeader: "shorter than one page, or its first page is zeros"
        case .record: "the record's MAC is wrong, or a field is not valid"
        case .missingRecord: "the directory has no record"
        case .symlink: "the target does not verify"
        default: damage.rawValue
        }
    }

    // MARK: fields

    /// A class for a person.
    static func name(_ protectionClass: ProtectionClass) -> String {
        "\(protectionClass.canonicalName) (\(protectionClass.letter))"
    }

    /// The names of flags, as in docs/judge/volume-format.md.
    static func flags(_ flags: FileFlags) -> [String] {
        let known: [(FileFlags, String)] = [
            (.holes, "HOLES"), (.keyExposed, "KEY_EXPOSED"), (.explicit, "EXPLICIT"),
        ]
        // Flags of a newer version have no names here.
        let unknown = (0..<UInt16.bitWidth).filter { flags.subtracting(.known).rawValue >> $0 & 1 == 1 }
        return known.filter { flags.contains($0.0) }.map(\.1) + unknown.map { "bit \($0)" }
    }

    // MARK: pages

    private static func state(_ page: InspectedPage) -> (word: String, reason: String?) {
        switch page.state {
        case .verified: ("verified", nil)
        case .hole: ("hole", nil)
        case .zeros: ("zeros", nil)
        case .dropped: ("dropped", nil)
        case .unchecked: ("unchecked", nil)
        case .refused(let error): ("refused", word(error))
        }
    }

    private static func note(_ page: InspectedPage) -> String {
        switch page.state {
        case .refused(.damaged(.block)):
            "the tag is wrong" + (page.field == nil ? "" : "; the other columns are claims")
        case .refused(let error): sentence(error)
        case .unchecked: page.field == nil ? "the block's field is not valid" : "claims, without the file's key"
        case .zeros: "crash damage, reads as zeros"
        case .dropped: "behind the end of the file"
        case .verified, .hole: page.evidence.map { "crash damage: \($0.rawValue)" } ?? ""
        }
    }

    /// Pages as JSON.
    static func json(_ run: InspectedRun) -> JSONValue {
        let (word, reason) = state(run.page)
        let field = run.page.field
        return .fields([
            ("first", .unsigned(run.pages.lowerBound)), ("last", .unsigned(run.pages.upperBound - 1)),
            ("state", .string(word)), ("reason", .optional(reason)),
            ("epoch", field.map { .integer(Int64($0.epoch)) } ?? .null),
            ("length", field.map { .integer(Int64($0.payloadLength)) } ?? .null),
            ("isLast", field.map { .bool($0.isLast) } ?? .null),
            ("crashDamage", .optional(run.page.evidence?.rawValue)),
        ])
    }

    /// Pages as a line of the table, with the heading before the first one.
    static func row(_ run: InspectedRun, _ isFirst: Bool) -> String {
        let (first, last) = (run.pages.lowerBound, run.pages.upperBound - 1)
        let field = run.page.field
        let cells = [
            first == last ? "\(first)" : "\(first)-\(last)", state(run.page).word, field.map { "\($0.epoch)" } ?? "",
            field.map { "\($0.payloadLength)" } ?? "", field?.isLast == true ? "LAST" : "",
        ]
        return (isFirst ? "\n" + line(["PAGES", "STATE", "EPOCH", "LENGTH", "FLAGS"], "NOTE") : "")
            + line(cells, note(run.page))
    }

    /// Columns of fixed width, because the pages are not known in advance.
    private static func line(_ cells: [String], _ last: String) -> String {
        let widths = [24, 11, 12, 8, 7]
        var text = zip(cells, widths).map { $0.padded(to: $1) }.joined() + last
        while text.last == " " { text.removeLast() }
        return text + "\n"
    }
}
