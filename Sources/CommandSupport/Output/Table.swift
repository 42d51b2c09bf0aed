// Tables for people, with columns as wide as their cells.

/// Rows under a heading, all cells text.
///
/// A table whose number of rows has no bound is printed in parts, so that it needs little memory and its first rows do not wait
/// for the last. A column that gets wider cells in a later part is wider from there on.
package struct Table {
    /// The number of rows after which a part is full. A table with fewer rows is printed at once.
    static let rowsInPart = 1000

    private var lines: [[String]]
    private var widths: [Int] = []

    /// A table with these columns. An empty heading is not shown.
    package init(_ heading: String...) {
        lines = heading.allSatisfy(\.isEmpty) ? [] : [heading]
    }

    /// Adds a row with as many cells as there are columns.
    package mutating func add(_ cells: String...) { lines.append(cells.map(Output.oneLine)) }

    /// The lines of all rows, each with its newline.
    package var text: String {
        var all = self
        return all.takePart()
    }

    /// The lines of the rows since the last part, if there are enough to print.
    package mutating func takeFullPart() -> String? { lines.count > Self.rowsInPart ? takePart() : nil }

    /// The lines of the rows since the last part, each with its newline. The heading belongs to the first part.
    package mutating func takePart() -> String {
        for line in lines {
            // The last column needs no width.
            for (index, cell) in line.dropLast().enumerated() {
                if index == widths.count { widths.append(0) }
                widths[index] = max(widths[index], cell.count)
            }
        }
        var result = ""
        for line in lines {
            for (index, cell) in line.enumerated() {
                result += index == line.count - 1 ? cell : cell.padded(to: widths[index] + 2)
            }
            result += "\n"
        }
        lines.removeAll(keepingCapacity: true)
        return result
    }
}

extension String {
    /// Padded with spaces to `width` characters.
    package func padded(to width: Int) -> String {
        count >= width ? self : self + String(repeating: " ", count: width - count)
    }
}
