// Tables for people, with columns as wide as their cells.

/// Rows under a heading, all cells text.
struct Table {
    private let heading: [String]
    private var rows: [[String]] = []

    /// A table with these columns. An empty heading is not shown.
    init(_ heading: String...) { self.heading = heading }

    /// Adds a row with as many cells as there are columns.
    mutating func add(_ cells: String...) { rows.append(cells.map(Output.oneLine)) }

    /// The table's lines, each with its newline.
    var text: String {
        let shown = heading.allSatisfy(\.isEmpty) ? rows : [heading] + rows
        var widths: [Int] = []
        for row in shown {
            for (index, cell) in row.enumerated() {
                if index == widths.count { widths.append(0) }
                widths[index] = max(widths[index], cell.count)
            }
        }
        var result = ""
        for row in shown {
            var line = ""
            for (index, cell) in row.enumerated() {
                let isLast = index == row.count - 1
                line += isLast ? cell : cell.padded(to: widths[index] + 2)
            }
            result += line + "\n"
        }
        return result
    }
}
