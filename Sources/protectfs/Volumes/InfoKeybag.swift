// What `info` shows of the keybag itself: its format, features, writer and generations, and what opens it.

import CommandSupport
import Control
import Keybag
import VolumeAccess
import VolumeFormat

/// A keybag's facts, for people and programs.
struct InfoKeybag {
    let bag: Keybag
    /// Whether the device key has verified them.
    let isAuthentic: Bool

    /// The fields of `info --json`.
    var fields: [(String, JSONValue)] {
        [
            ("format", .integer(Int64(FormatVersion.current))), ("writer", .optional(bag.writer)),
            (
                "features",
                .fields([
                    ("incompatible", .array([])), ("readOnlyCompatible", Self.list(bag.readOnlyFeatures)),
                    ("compatible", Self.list(bag.compatibleFeatures)),
                ])
            ),
            ("generations", .fields(Self.classes.map { ($0.name, .integer(Int64(bag.generations[$0.number]))) })),
            ("fingerprint", .string(bag.fingerprint)),
            ("slots", .array(bag.slots.map(KeybagCommands.describe))),
        ]
    }

    /// Adds the rows of `info`.
    func add(to table: inout Table) {
        table.add("Format", "\(FormatVersion.current)")
        table.add("Written by", (bag.writer ?? "unknown") + (isAuthentic ? "" : " (not verified)"))
        if bag.compatibleFeatures != 0 {
            table.add("Features", "\(FeatureNames.list(bag.compatibleFeatures)) (not used by this version)")
        }
        if bag.readOnlyFeatures != 0 {
            table.add(
                "Features",
                "\(FeatureNames.list(bag.readOnlyFeatures)) (with which this version must not change the volume)")
        }
        let generations = Self.classes.map { "\($0.letter) \(bag.generations[$0.number])" }
        table.add("Generations", generations.joined(separator: ", "))
        table.add("Fingerprint", bag.fingerprint)
        let (slots, more) = KeybagCommands.shown(bag)
        for slot in slots {
            let facts = [
                "slot \(slot.id)", slot.label.name, KeybagCommands.made(slot), KeybagCommands.cost(slot),
            ].compactMap { $0 }
            table.add(
                "Opens with",
                KeybagCommands.kindName(slot) + (slot.isBound ? " and device key" : "")
                    + " (\(facts.joined(separator: ", ")))")
        }
        if let more { table.add("", more) }
    }

    private static func list(_ word: UInt32) -> JSONValue { .array(FeatureNames.names(word).map { .string($0) }) }

    private static let classes: [(name: String, letter: String, number: Int)] =
        ProtectionClass.allCases.map {
            (name: $0.canonicalName, letter: "\($0.letter)", number: Int($0.rawValue))
        }
}
