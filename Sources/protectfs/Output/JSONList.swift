// A list of --json that is printed while its elements come.

import Control

/// An array in one line. It is printed in parts, so a long one needs little memory.
struct JSONList {
    private static let partSize = 1 << 16

    private var bytes = [UInt8(ascii: "[")]
    private var isFirst = true

    /// Adds an element.
    mutating func add(_ element: JSONValue) {
        if !isFirst { bytes.append(UInt8(ascii: ",")) }
        isFirst = false
        bytes += element.serialized()
        if bytes.count >= Self.partSize { printPart() }
    }

    /// Ends the array and its line.
    mutating func end() {
        bytes += "]\n".utf8
        printPart()
    }

    private mutating func printPart() {
        Output.print(bytes: bytes)
        bytes.removeAll(keepingCapacity: true)
    }
}
