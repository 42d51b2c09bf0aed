// Reads and writes the arguments of a message as values.

extension DBusMessage {
    /// The arguments that have not been read yet.
    package func arguments() throws(DBusError) -> [DBusValue] {
        var values: [DBusValue] = []
        while let next = try next() { values.append(try value(next)) }
        return values
    }

    /// Reads the next argument.
    package func argument() throws(DBusError) -> DBusValue {
        guard let next = try next() else { throw .invalidArguments("an argument is missing") }
        return try value(next)
    }

    /// Depth is what D-Bus allows: 64 containers, and as many variants as sd-bus takes (128).
    private func value(_ next: (type: UInt8, contents: String)) throws(DBusError) -> DBusValue {
        valuesRead += 1
        guard valuesRead <= Self.mostValues else { throw .invalidArguments("too many values") }
        let type = next.type
        switch Character(UnicodeScalar(type)) {
        case "y": return .byte(try basic(type, 0))
        case "b": return .bool(try basic(type, Int32(0)) != 0)
        case "n": return .int16(try basic(type, 0))
        case "q": return .uint16(try basic(type, 0))
        case "i": return .int32(try basic(type, 0))
        case "u": return .uint32(try basic(type, 0))
        case "x": return .int64(try basic(type, 0))
        case "t": return .uint64(try basic(type, 0))
        case "d": return .double(try basic(type, 0))
        case "h": return .descriptor(try basic(type, -1))
        case "s": return .string(try readText(type))
        case "o": return .path(try readText(type))
        case "g": return .signature(try readText(type))
        case "v":
            try enter(.variant, next.contents)
            let content = try argument()
            try leave()
            return .variant(content)
        case "r":
            try enter(.structure, next.contents)
            let members = try arguments()
            try leave()
            return .structure(members)
        case "a": return try array(of: next.contents)
        default: throw .invalidArguments("an unknown type")
        }
    }

    private func array(of contents: String) throws(DBusError) -> DBusValue {
        if contents == "y" {
            return .bytes(try withBytes { bytes in bytes.indices.map { bytes[$0] } })
        }
        try enter(.array, contents)
        if contents.hasPrefix("{") {
            let types = String(contents.dropFirst().dropLast())
            var entries: [DBusValue.Entry] = []
            while try !isAtEnd() {
                try enter(.entry, types)
                entries.append(DBusValue.Entry(try argument(), try argument()))
                try leave()
            }
            try leave()
            return .dictionary(key: String(types.prefix(1)), value: String(types.dropFirst()), entries)
        }
        let elements = try arguments()
        try leave()
        return .array(of: contents, elements)
    }

    private func basic<Basic: BitwiseCopyable>(_ type: UInt8, _ initial: Basic) throws(DBusError) -> Basic {
        var value = initial
        try read(type, into: &value)
        return value
    }

    /// Writes arguments.
    package func append(_ values: [DBusValue]) throws(DBusError) {
        for value in values { try append(value) }
    }

    /// Writes an argument.
    package func append(_ value: DBusValue) throws(DBusError) {
        let type = value.signature.utf8.first ?? 0
        switch value {
        case .byte(let value): try append(type, value)
        case .bool(let value): try append(type, Int32(value ? 1 : 0))
        case .int16(let value): try append(type, value)
        case .uint16(let value): try append(type, value)
        case .int32(let value): try append(type, value)
        case .uint32(let value): try append(type, value)
        case .int64(let value): try append(type, value)
        case .uint64(let value): try append(type, value)
        case .double(let value): try append(type, value)
        case .descriptor(let number): try append(type, number)
        case .string(let text), .path(let text), .signature(let text): try appendText(type, text)
        case .bytes(let bytes):
            try appendBytes(count: bytes.count) { span in
                for index in bytes.indices { span[index] = bytes[index] }
            }
        case .array(let element, let elements):
            try open(.array, element)
            try append(elements)
            try close()
        case .structure(let members):
            try open(.structure, members.map(\.signature).joined())
            try append(members)
            try close()
        case .dictionary(let key, let value, let entries):
            try open(.array, "{" + key + value + "}")
            for entry in entries {
                try open(.entry, key + value)
                try append(entry.key)
                try append(entry.value)
                try close()
            }
            try close()
        case .variant(let content):
            try open(.variant, content.signature)
            try append(content)
            try close()
        }
    }
}
