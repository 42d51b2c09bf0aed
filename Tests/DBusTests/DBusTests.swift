// Calls, values, properties, signals and lost buses, over a real message bus.

import DBus
import HostSystem
import Testing

@Suite struct DBusTests {
    private static let path = "/org/protectfs/Test"
    private static let interface = "org.protectfs.Test1"

    private final class Object {
        var label = "first"
        var secret: [UInt8] = []

        var interfaces: [DBusInterface] {
            let anything = DBusValue.all.map(\.signature).joined()
            return [
                DBusInterface(
                    DBusTests.interface,
                    methods: [
                        .init(
                            "Echo", takes: [.init("values", anything)], gives: [.init("values", anything)],
                            { values, _ in values }),
                        .init("Who", gives: [.init("name", "s")], { _, sender in [.string(sender)] }),
                        .init(
                            "Fail",
                            { (_, _) throws(DBusError) in
                                throw DBusError("org.protectfs.Error.Locked", "the volume is locked")
                            }),
                        .init(
                            "Keep", takes: [.init("secret", "(say)")], gives: [.init("secret", "ay")],
                            streaming: { (call, answer) throws(DBusError) in
                                try call.markSensitive()
                                try call.enter(.structure, "say")
                                let name = try call.argument()
                                self.secret = try call.withBytes { bytes in bytes.indices.map { bytes[$0] } }
                                try call.leave()
                                #expect(name == .string("name"))
                                try answer.appendBytes(count: self.secret.count) { span in
                                    for index in self.secret.indices { span[index] = self.secret[index] ^ 1 }
                                }
                            }),
                    ],
                    properties: [
                        .init(
                            "Label", "s", get: { .string(self.label) },
                            set: { (value) throws(DBusError) in self.label = value.text ?? "" }),
                        .init("Count", "u", get: { .uint32(7) }),
                    ],
                    signals: [.init("Changed", [.init("what", "s")])])
            ]
        }
    }

    private func ends(_ bus: PrivateBus, _ object: Object = Object()) throws -> TwoEnds {
        try TwoEnds(
            bus,
            DBusExports(
                { $0 == Self.path ? object.interfaces : nil },
                children: { $0 == "/org/protectfs" ? ["Test"] : [] }))
    }

    @Test func everyTypeComesBackAsItWent() throws {
        let ends = try ends(PrivateBus())
        let answer = try ends.call(Self.path, Self.interface, "Echo", DBusValue.all)
        #expect(try answer.arguments() == DBusValue.all)
        #expect(answer.signature == DBusValue.all.map(\.signature).joined())
    }

    @Test func aDescriptorIsOfTheSameFile() throws {
        let bus = try PrivateBus()
        let inner = DBusExports { _ in
            let pass = DBusInterface.Method("Pass", takes: [.init("file", "h")]) { values, _ in
                guard case .descriptor(let number)? = values.first else { return [] }
                #expect(throws: Never.self) { try Descriptor(duplicating: number).write("x") }
                return []
            }
            return [DBusInterface("a.b", methods: [pass])]
        }
        let ends = try TwoEnds(bus, inner)
        var pipe = try Pipe()
        let writing = pipe.writing.take()?.release() ?? -1
        _ = try ends.call("/", "a.b", "Pass", [.descriptor(writing)])
        _ = Descriptor(taking: writing)
        let got = try pipe.reading.take()?.readAll(limit: 2)
        #expect(got == [UInt8(ascii: "x")])
    }

    @Test func secretsAreReadAndWrittenInPlace() throws {
        let object = Object()
        let ends = try ends(PrivateBus(), object)
        let answer = try ends.call(
            Self.path, Self.interface, "Keep", [.structure([.string("name"), .bytes([1, 2, 3])])])
        #expect(object.secret == [1, 2, 3])
        #expect(try answer.arguments() == [.bytes([0, 3, 2])])
    }

    @Test func propertiesAreReadSetAndListed() throws {
        let object = Object()
        let ends = try ends(PrivateBus(), object)
        func call(_ method: String, _ words: [DBusValue]) throws -> [DBusValue] {
            try ends.call(Self.path, DBusInterface.properties, method, words).arguments()
        }
        #expect(try call("Get", [.string(Self.interface), .string("Label")]) == [.variant(.string("first"))])
        #expect(try call("Set", [.string(Self.interface), .string("Label"), .variant(.string("second"))]) == [])
        #expect(object.label == "second")
        let all = try call("GetAll", [.string(Self.interface)])
        #expect(all == [.properties([("Label", .string("second")), ("Count", .uint32(7))])])
        for (words, error) in [
            ([.string(Self.interface), .string("Count"), .variant(.uint32(1))], "PropertyReadOnly"),
            ([.string(Self.interface), .string("Label"), .variant(.uint32(1))], "InvalidArgs"),
            ([.string(Self.interface), .string("None"), .variant(.uint32(1))], "UnknownProperty"),
            ([.string("a.b"), .string("None"), .variant(.uint32(1))], "UnknownInterface"),
        ] as [([DBusValue], String)] {
            let thrown = #expect(throws: DBusError.self) { try call("Set", words) }
            #expect(thrown?.name == "org.freedesktop.DBus.Error." + error)
        }
    }

    @Test func wrongCallsAreRefusedByName() throws {
        let ends = try ends(PrivateBus())
        for (path, interface, method, arguments, error) in [
            ("/none", Self.interface, "Who", [], "UnknownObject"),
            (Self.path, "a.b", "Who", [], "UnknownInterface"),
            (Self.path, Self.interface, "Whom", [], "UnknownMethod"),
            (Self.path, Self.interface, "Who", [.string("x")], "InvalidArgs"),
        ] as [(String, String, String, [DBusValue], String)] {
            let thrown = #expect(throws: DBusError.self) { try ends.call(path, interface, method, arguments) }
            #expect(thrown?.name == "org.freedesktop.DBus.Error." + error)
        }
        let thrown = #expect(throws: DBusError.self) { try ends.call(Self.path, Self.interface, "Fail", []) }
        #expect(thrown == DBusError("org.protectfs.Error.Locked", "the volume is locked"))
        #expect(
            try ends.call(Self.path, Self.interface, "Who", []).arguments() == [.string(try ends.client.uniqueName())])
    }

    @Test func toolsCanAskWhatThereIs() throws {
        let ends = try ends(PrivateBus())
        func xml(_ path: String) throws -> String {
            try ends.call(path, "org.freedesktop.DBus.Introspectable", "Introspect", []).argument().text ?? ""
        }
        #expect(try xml("/org/protectfs").contains("<node name=\"Test\"/>"))
        let text = try xml(Self.path)
        #expect(text.contains("<property name=\"Count\" type=\"u\" access=\"read\"/>"))
        #expect(text.contains("<signal name=\"Changed\">"))
        #expect(text.contains("org.freedesktop.DBus.Properties"))
    }

    @Test func aForgedSignalIsNotFromTheService() throws {
        let bus = try PrivateBus()
        let ends = try ends(bus)
        try ends.client.subscribe(TwoEnds.service, Self.interface)
        let forger = try DBusConnection(bus.address)
        for sender in [forger, ends.server] {
            let signal = try sender.signal(Self.path, Self.interface, "Changed")
            try signal.append(.string("x"))
            try signal.address(to: try ends.client.uniqueName())
            try sender.send(signal)
        }
        try ends.serve { ends.signals.filter { $0.member == "Changed" }.count == 2 }
        let found = ends.signals.filter { $0.member == "Changed" }
        #expect(found.map { ends.client.isFrom($0, service: TwoEnds.service) }.filter { $0 }.count == 1)
    }

    @Test func itIsSeenThatAServiceEndsAndBegins() throws {
        let ends = try ends(PrivateBus())
        try ends.client.watch(TwoEnds.service)
        #expect(ends.client.owner(of: TwoEnds.service) == (try ends.server.uniqueName()))
        try ends.server.giveBack(TwoEnds.service)
        try ends.serve { ends.signals.contains { $0.change?.isRunning == false } }
        #expect(ends.client.owner(of: TwoEnds.service) == nil)
        #expect(try ends.server.take(TwoEnds.service))
        try ends.serve { ends.signals.contains { $0.change?.isRunning == true } }
        #expect(try ends.client.take(TwoEnds.service) == false)
    }

    @Test func aLostBusIsAnError() throws {
        let bus = try PrivateBus()
        let connection = try DBusConnection(bus.address)
        try bus.stop()
        let thrown = #expect(throws: DBusError.self) {
            while true {
                while try connection.next() != nil {}
                var entries = [connection.pollEntry]
                PollEntry.wait(&entries, until: connection.deadline)
            }
        }
        #expect(thrown?.isDisconnected == true)
        #expect(throws: DBusError.self) { try DBusConnection(bus.address) }
    }
}

extension DBusValue {
    /// Values of each type. New ones each time: the leak checker does not find what only a global value holds.
    fileprivate static var all: [DBusValue] {
        [
            .byte(255), .bool(true), .int16(-2), .uint16(65535), .int32(-3), .uint32(.max), .int64(.min), .uint64(.max),
            .double(0.5), .string("grüße"), .path("/a/b"), .signature("a{sv}"), .bytes([0, 1, 255]), .bytes([]),
            .strings(["one", ""]), .strings([]), .array(of: "(ib)", [.structure([.int32(1), .bool(false)])]),
            .array(of: "as", [.strings(["x"]), .strings([])]),
            .structure([.string("s"), .structure([.byte(1)])]),
            .dictionary(key: "s", value: "a{us}", [.init(.string("k"), .dictionary(key: "u", value: "s", []))]),
            .properties([("a", .bool(true)), ("b", .strings(["c"])), ("d", .variant(.byte(1)))]),
            .variant(.structure([.int64(5)])),
        ]
    }
}
