// The report of `inspect`, for people and as JSON. Pages are written as they come, so a file of any size needs little memory.

import BackingStore
import CommandSupport
import Control
internal import FileContents
import HostSystem
import KeyFiles
import Keybag
import MountDaemon
import ProtectedVolume
import VolumeAccess
import VolumeCheck
import VolumeFormat

/// Writes one report.
struct InspectReport {
    /// The pages by their state.
    private struct Counts {
        var verified: UInt64 = 0
        var holes: UInt64 = 0
        var crashed: UInt64 = 0
        var refused: UInt64 = 0
        var newer: UInt64 = 0
        var unread: UInt64 = 0
        var unchecked: UInt64 = 0

        /// Each with its member in JSON and its word for a person.
        var all: [(word: String, text: String, count: UInt64)] {
            [
                ("verifiedPages", "verified", verified), ("holePages", "in holes", holes),
                ("crashedPages", "with crash damage", crashed), ("refusedPages", "damaged", refused),
                ("newerPages", "made by a newer version", newer), ("unreadPages", "not readable", unread),
                ("uncheckedPages", "not checked", unchecked),
            ]
        }
    }

    /// The object's name on a mount.
    enum Name {
        /// The names of the path decrypt, with this proof.
        case place(NamedPlace)
        /// The object, or a directory above it, is the format's own.
        case reserved(ReservedName.Kind)
        /// The object is outside of any store.
        case none

        init(_ object: StoreObject, _ inspector: Inspector) throws(VolumeError) {
            guard object.root != nil else {
                self = .none
                return
            }
            do throws(VolumeError) {
                switch try inspector.place(of: object.components) {
                case .success(let place): self = .place(place)
                case .failure(let nameless): self = .reserved(nameless.kind)
                }
            } catch {
                // A companion without its entry.
                guard error == .noEntry, object.isCompanion else { throw error }
                self = .reserved(.companion)
            }
        }

        /// The kind of reserved name, also of an object whose own name is one although it has another on the mount.
        var reserved: ReservedName.Kind? {
            if case .reserved(let kind) = self { return kind }
            return nil
        }

        /// Whether the object should have a name that verifies, and does not.
        var isUnproven: Bool {
            if case .place(let place) = self { return place.standing != .verified }
            return false
        }
    }

    private let object: StoreObject
    private let name: Name
    private let isJSON: Bool
    private var fields: [(String, JSONValue)]
    private var table = Table("", "")
    private var counts = Counts()
    private var isFirstRun = true

    init(_ object: StoreObject, _ name: Name, _ access: CheckedVolume, isJSON: Bool) {
        (self.object, self.name, self.isJSON) = (object, name, isJSON)
        let kind = NodeKind(object.kind)
        fields = [
            ("path", .location(object.path)),
            ("volume", .string("\(access.bag.volumeID)")), ("kind", .optional(kind.map(ObjectWords.word))),
        ]
        table.add("Object", object.path.description)
        table.add("Kind", kind.map(ObjectWords.name) ?? "unknown")
        addName()
    }

    private mutating func addName() {
        switch name {
        case .none:
            fields += [("name", .null), ("reserved", .null)]
            table.add("Name", "not known, because the file is not in a volume's directory")
        case .reserved(let kind):
            let words = ObjectWords.reserved(kind)
            fields += [("name", .null), ("reserved", .optional(words?.word))]
            table.add("Name", "none: \(words?.what ?? "an object of the format"); \(words?.more ?? "")")
        case .place(let place):
            let visible = HostPath(components: place.visible)
            let text = String(decoding: visible.bytes, as: UTF8.self)
            let reserved = object.isCompanion ? ObjectWords.reserved(.companion) : nil
            fields += [
                (
                    "name",
                    .fields([
                        ("path", .string(text)), ("pathHex", .string(Hexadecimal.text(visible.bytes))),
                        ("standing", .string(place.standing.rawValue)),
                        ("companion", place.companion.map { .path(HostPath(bytes: $0.bytes)) } ?? .null),
                    ])
                ), ("reserved", .optional(reserved?.word)),
            ]
            if let reserved { table.add("Use", "\(reserved.what); \(reserved.more)") }
            let proof =
                switch place.standing {
                case .verified: "verifies"
                case .unverified: "not verified: a directory above has no record"
                case .undecryptable: "does not decrypt here"
                }
            table.add("Name", "/\(visible) (\(proof))")
        }
    }

    // MARK: objects without pages

    /// An object of the format.
    mutating func show(reserved kind: ReservedName.Kind) -> ExitCode { finish(.success, isChecked: false) }

    /// An object that has nothing to verify but its name.
    mutating func showOther() -> ExitCode { finish(code(nil)) }

    mutating func show(_ found: InspectedRecord) -> ExitCode {
        var record: [(String, JSONValue)] = [
            ("verifies", .bool(InspectWords.verifies(found.error))),
            ("reason", .optional(found.error.map(InspectWords.word))),
        ]
        table.add("Record", found.error.map(InspectWords.sentence) ?? "verifies")
        if let directoryID = found.directoryID {
            let id = Hexadecimal.text((0..<ObjectID.length).map { directoryID.bytes[$0] })
            record += [
                ("defaultClass", .optional(found.defaultClass?.canonicalName)), ("directoryID", .string(id)),
            ]
            table.add("Default class", found.defaultClass.map(InspectWords.name) ?? "none set, or not known")
            table.add("Directory ID", id)
        }
        fields.append(("record", .fields(record)))
        return finish(code(found.error))
    }

    /// A symbolic link.
    mutating func show(_ found: InspectedTarget) -> ExitCode {
        fields.append(
            (
                "target",
                .fields([
                    ("verifies", .bool(InspectWords.verifies(found.error))),
                    ("reason", .optional(found.error.map(InspectWords.word))),
                    ("path", .optional(found.path.map { String(decoding: $0, as: UTF8.self) })),
                    ("pathHex", .optional(found.path.map { Hexadecimal.text($0) })),
                ])
            ))
        let path = found.path.map { "\(HostPath(bytes: $0)) (verifies)" }
        table.add("Target", found.error.map(InspectWords.sentence) ?? path ?? "")
        return finish(code(found.error))
    }

    private func code(_ error: VolumeError?) -> ExitCode {
        if let error { return InspectWords.code(error) }
        return name.isUnproven ? .volume : .success
    }

    private mutating func finish(_ code: ExitCode, isChecked: Bool = true) -> ExitCode {
        if isJSON {
            fields.append(("result", isChecked ? .string(InspectWords.result(code)) : .null))
            Output.line(JSONValue.fields(fields).line)
        } else {
            Output.print(table.text)
        }
        return code
    }

    // MARK: files

    /// The file before its pages.
    mutating func begin(_ file: InspectedFile, missing: String?) {
        addHeader(file)
        let epochs = file.evidence.map { found in
            JSONValue.fields([("kind", .string(found.kind.rawValue)), ("page", .unsigned(found.page))])
        }
        fields += [
            ("length", .unsigned(file.length)), ("size", file.size.map { .unsigned($0) } ?? .null),
            ("error", .optional(file.error.map(InspectWords.word))), ("crashDamage", .array(epochs)),
            ("missing", .optional(missing)),
            ("version", file.version.map { .unsigned(UInt64($0)) } ?? .null),
            ("seenVersion", file.seenVersion.map { .unsigned(UInt64($0)) } ?? .null),
        ]
        table.add("Size", file.size.map { "\($0) bytes" } ?? "not known")
        table.add("Backing file", "\(file.length) bytes, \(PageGeometry.pages(backingLength: file.length)) pages")
        if let error = file.error, file.headerError == nil {
            let reason = missing.map { "; \($0)" } ?? ""
            table.add("Content", InspectWords.sentence(error) + reason)
        }
        if file.isOlder, let version = file.version, let seen = file.seenVersion {
            table.add(
                "Version",
                "\(InfoState.text(version)), older than this machine has seen it: \(InfoState.text(seen))")
        }
        for found in file.evidence {
            table.add("Crash damage", "\(found.kind.rawValue) at page \(found.page), tolerated")
        }
        if isJSON {
            // The object stays open: its pages follow.
            Output.print(String(JSONValue.fields(fields).line.dropLast()) + ",\"pages\":[")
        } else {
            Output.print(table.text)
        }
    }

    private mutating func addHeader(_ file: InspectedFile) {
        let version = file.headerBytes.starts(with: "PFS".utf8) ? file.headerBytes.dropFirst(3).first : nil
        var header: [(String, JSONValue)] = [
            ("verifies", .bool(!file.hasNoHeader && InspectWords.verifies(file.headerError))),
            ("reason", .optional(file.headerError.map(InspectWords.word))),
            ("version", version.map { .integer(Int64($0)) } ?? .null),
            ("bytes", .string(Hexadecimal.text(file.headerBytes.prefix(FileHeader.wrapRange.lowerBound)))),
        ]
        let state =
            file.hasNoHeader
            ? "never written, because of a crash: the file is empty"
            : file.headerError.map(InspectWords.sentence) ?? "verifies"
        table.add("Header", state + (version.map { ", version \($0)" } ?? ""))
        if let unknown = file.unknown {
            table.add("Not known", ErrorMessages.reason(unknown))
        }
        header.append(("newer", .optional(file.unknown.map(ErrorMessages.reason))))
        if file.header == nil, file.unknown != nil {
            addNewer(file.headerBytes, &header)
        } else if let claims = file.header {
            let id = Hexadecimal.text((0..<ObjectID.length).map { claims.fileID.bytes[$0] })
            let flags = InspectWords.flags(claims.flags)
            let mark = InspectWords.verifies(file.headerError) ? "" : " (claimed)"
            header += [
                ("class", .string(claims.protectionClass.canonicalName)), ("cipher", .string(claims.suite.name)),
                ("flags", .array(flags.map { .string($0) })), ("generation", .integer(Int64(claims.keyGeneration))),
                ("fileID", .string(id)),
            ]
            table.add("Class", InspectWords.name(claims.protectionClass) + mark)
            table.add("Key generation", "\(claims.keyGeneration)" + mark)
            table.add("Cipher", claims.suite.name + mark)
            table.add("Flags", (flags.isEmpty ? "none" : flags.joined(separator: ", ")) + mark)
            table.add("File ID", id + mark)
        }
        fields.append(("header", .fields(header)))
    }

    /// The fields of a newer header that verifies, where this version has them. Those that it does not know are numbers.
    private mutating func addNewer(_ bytes: [UInt8], _ header: inout [(String, JSONValue)]) {
        guard bytes.count == FileHeader.length else { return }
        let span = bytes.span
        let known = ProtectionClass(rawValue: bytes[4])
        let suite = CipherSuite(rawValue: bytes[5])
        let flags = InspectWords.flags(FileFlags(rawValue: span.littleEndian(at: 8)))
        let generation: UInt16 = span.littleEndian(at: 10)
        let id = Hexadecimal.text(bytes[16..<32])
        header += [
            ("class", .string(known?.canonicalName ?? "\(bytes[4])")),
            ("cipher", .string(suite?.name ?? "\(bytes[5])")),
            ("flags", .array(flags.map { .string($0) })), ("generation", .integer(Int64(generation))),
            ("fileID", .string(id)),
        ]
        table.add("Class", known.map(InspectWords.name) ?? "number \(bytes[4])")
        table.add("Key generation", "\(generation)")
        table.add("Cipher", suite?.name ?? "number \(bytes[5])")
        table.add("Flags", flags.isEmpty ? "none" : flags.joined(separator: ", "))
        table.add("File ID", id)
    }

    /// The next pages.
    mutating func add(_ run: InspectedRun) {
        let count = UInt64(run.pages.count)
        switch run.page.state {
        case .verified: counts.verified += count
        case .hole: counts.holes += count
        case .zeros, .dropped: counts.crashed += count
        case .unchecked: counts.unchecked += count
        case .refused(.store): counts.unread += count
        case .refused(.newer): counts.newer += count
        case .refused: counts.refused += count
        }
        defer { isFirstRun = false }
        isJSON
            ? Output.print((isFirstRun ? "" : ",") + InspectWords.json(run).line)
            : Output.print(InspectWords.row(run, isFirstRun))
    }

    /// The end of the file. Returns the exit code.
    func end(_ file: InspectedFile) -> ExitCode {
        let code = code(file)
        if isJSON {
            let end: JSONValue = .fields(
                counts.all.map { ($0.word, .unsigned($0.count)) } + [
                    ("changed", .bool(file.wasChanged)), ("result", .string(InspectWords.result(code))),
                ])
            Output.line("]," + end.line.dropFirst())
            return code
        }
        let parts = counts.all.filter { $0.count > 0 }.map { "\($0.count) \($0.text)" }
        Output.line("Pages: " + (parts.isEmpty ? "none" : parts.joined(separator: ", ")) + ".")
        if file.wasChanged {
            Output.line("A program changed the file meanwhile. Run inspect again, or inspect a snapshot.")
        }
        return code
    }

    private func code(_ file: InspectedFile) -> ExitCode {
        if case .locked? = file.error { return .locked }
        if counts.unread > 0 { return .failure }
        let own = file.error.map(InspectWords.code) ?? .success
        let isDamaged = own == .volume || counts.refused > 0
        if isDamaged { return file.wasChanged ? .busy : .volume }
        if own != .success { return own }
        if counts.newer > 0 || file.header?.flags.areReadableOnly == true { return .unsupported }
        return name.isUnproven ? .volume : .success
    }
}
