// A list of --json that is printed while its elements come.

package import Control

/// An array in one line. It is printed in parts, so a long one needs little memory.
package struct JSONList {
    private static let partSize = 1 << 16

    private var bytes = [UInt8(ascii: "[")]
    private var isFirst = true

    /// An empty list. Nothing is printed yet.
    package init() {}

    /// Adds an element.
    package mutating func add(_ element: JSONValue) {
        if !isFirst { bytes.append(UInt8(ascii: ",")) }
        isFirst = false
        bytes += element.serialized()
        if bytes.count >= Self.partSize { printPart() }
    }

    /// Ends the array and its line.
    package mutating func end() {
        bytes += "]\n".utf8
        printPart()
    }

    private mutating func printPart() {
        Output.print(bytes: bytes)
        bytes.removeAll(keepingCapacity: true)
    }
}
