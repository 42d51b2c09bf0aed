// Runs the tamper matrix, and holds docs/judge/tamper-matrix.md against what it gave.

// protectfs: plain Foundation: writes a document of this repository.
import TestSupport
import Foundation
import Testing
import VolumeFormat

@testable import ProtectedVolume

@Suite struct TamperMatrixTests {
    /// `write`: the document is written. `all`: every byte is flipped. `few`: a part, for the slow sanitizers.
    private let mode = ProcessInfo.processInfo.environment["PROTECTFS_TAMPER"] ?? ""
    private let documents = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../docs/judge")

    @Test func everyFieldInEveryWay() throws {
        var rows = try TamperKeybag().rows(isComplete: mode == "all")
        let scenes = mode == "few" ? [try TamperScene.holes()] : try TamperScene.all() + [TamperScene.tolerated()]
        for scene in scenes {
            #expect(!scene.reading.hasErrors, "\(scene.kinds[0].name)")
            rows += try TamperMatrix(scene: scene, isComplete: mode == "all").rows()
        }
        if mode != "few" { rows += try TamperLate().rows(isComplete: mode == "all") }
        rows += try TamperStore.rows()
        let decisions = try TamperDecisions.rows()
        let failures = rows.flatMap(\.cells).flatMap(\.failures) + decisions.flatMap(\.failures)
        #expect(failures.isEmpty, "\(failures.joined(separator: "\n"))")
        // A matrix that changes nothing finds nothing.
        let changes = rows.flatMap(\.cells).map(\.changes).reduce(0, +)
        print("tamper matrix: \(rows.count) fields, \(rows.count * Tampering.allCases.count) cells, \(changes) changes")
        #expect(changes > (mode == "few" ? 500 : 2000))
        guard mode != "few" else { return }
        let file = documents.appending(path: "tamper-matrix.md")
        let text = TamperTable.document(rows, decisions)
        if mode == "write" { try Data(text.utf8).write(to: file) }
        let written = try String(contentsOf: file, encoding: .utf8)
        let stale = zip(written.split(separator: "\n"), text.split(separator: "\n")).first { $0 != $1 }
        #expect(
            (written == text) as Bool,
            "docs/judge/tamper-matrix.md is stale: \(stale.map { "it says «\($0)», the matrix «\($1)»" } ?? "lengths differ")"
        )
    }

    /// Every letter of the table is a heading of the threat model, and stands somewhere in the table.
    @Test func theThreatModelNamesEveryGap() throws {
        let model = try String(contentsOf: documents.appending(path: "threat-model.md"), encoding: .utf8)
        let table = try String(contentsOf: documents.appending(path: "tamper-matrix.md"), encoding: .utf8)
        #expect(TamperTable.gaps.count == TamperMatrix.Uncovered.allCases.count)
        for gap in TamperTable.gaps {
            let isNamed =
                model.contains("\n*\(gap.name).*") || model.contains("\n*\(gap.name)*")
                || model.contains("\n*\(gap.name):*")
            #expect(isNamed, "\(gap.name)")
            #expect(table.components(separatedBy: "**\(gap.letter.rawValue)**").count > 2, "\(gap.name) occurs nowhere")
        }
    }

    /// The layout tables fill each object, and agree with what the parsers use.
    @Test func fieldsFillTheirObjects() throws {
        func check(_ fields: [LayoutField], _ range: Range<Int>, _ name: String) {
            var end = range.lowerBound
            for field in fields {
                #expect(field.range.lowerBound == end, "\(name), \(field.name)")
                end = field.range.upperBound
            }
            #expect(end == range.upperBound, "\(name)")
        }
        for protectionClass in ProtectionClass.allCases {
            let fields = FileHeader.fields(of: protectionClass)
            check(fields, 0..<FileHeader.length, "header")
            #expect(fields.last?.range == FileHeader.macRange)
            #expect(fields.first { $0.name.hasPrefix("wrap") }?.range.lowerBound == FileHeader.wrapRange.lowerBound)
        }
        for suite in CipherSuite.allCases {
            let geometry = PageGeometry(suite: suite)
            for block in [0, 1] as [UInt64] {
                let fields = geometry.fields(ofBlock: block)
                check(fields, geometry.nonceRange(ofBlock: block).lowerBound..<PageGeometry.pageSize, "block")
                #expect(fields[1].range.lowerBound == geometry.fieldRange(ofBlock: block).lowerBound)
                #expect(fields[5].range == geometry.ciphertextRange(ofBlock: block))
            }
        }
        check(DirectoryRecord.fields, 0..<DirectoryRecord.length, "record")
        #expect(DirectoryRecord.fields.last?.range == DirectoryRecord.macRange)
        check(LateFileHeader.fields, 0..<LateFileHeader.length, "late file's header")
        let id = ObjectID(InlineArray(repeating: 1))
        for record in [
            LateRecordHeader(dataLength: 9, index: 0, fileID: id, offset: 0, seconds: 0, nanoseconds: 0),
            LateRecordHeader(doneWith: id, index: 0),
        ] {
            check(record.fields, 0..<record.recordLength, "late record")
            #expect(record.fields.first { $0.range.lowerBound == LateRecordHeader.length } != nil)
        }
    }

    /// The format's document has the same fields in the same places.
    @Test func theFormatsTablesSayTheSame() throws {
        let text = try String(contentsOf: documents.appending(path: "volume-format.md"), encoding: .utf8)
        let record = LateRecordHeader(
            dataLength: 1, index: 0, fileID: ObjectID(InlineArray(repeating: 1)), offset: 0, seconds: 0, nanoseconds: 0)
        let sections: [(heading: String, fields: [LayoutField])] = [
            ("### 5.1 Header", FileHeader.fields(of: .complete)), ("### 7.1 Directory records", DirectoryRecord.fields),
            (
                "### 4.1 The state file",
                StateFileLayout(unpinned: VolumeID(InlineArray(repeating: 1)), toleratesEverything: true).fields
            ),
            ("### 8.1 Header, 128 bytes", LateFileHeader.fields), ("### 8.2 Records", record.fields),
        ]
        for section in sections {
            let start = try #require(text.range(of: section.heading))
            var table: [Range<Int>] = []
            for line in text[start.upperBound...].split(separator: "\n").dropFirst() {
                if line.hasPrefix("#") { break }
                let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
                if cells.count >= 3, let offset = Int(cells[0]), let length = Int(cells[1]) {
                    table.append(offset..<offset + length)
                }
            }
            let ends = Set(section.fields.map(\.range.upperBound))
            #expect(!table.isEmpty)
            for range in table where !ends.contains(range.upperBound) {
                Issue.record("\(section.heading): \(range) ends between two fields")
            }
        }
    }
}
