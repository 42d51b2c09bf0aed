// Finds the name that a person probably meant.

/// Suggestions for names that do not exist.
package enum NearMiss {
    /// The longest word that is compared, in characters.
    private static let longest = 40

    /// " (did you mean NAME?)", or nothing if no name is near.
    ///
    /// - Parameter prefix: the text in front of a name, such as `--`.
    package static func suggestion(for word: String, among names: [String], prefix: String = "") -> String {
        guard let name = nearest(to: word, among: names) else { return "" }
        return " (did you mean \(prefix)\(name)?)"
    }

    /// The nearest name. One that other programs use counts as ours.
    static func nearest(to word: String, among names: [String]) -> String? {
        guard word.utf8.count <= longest else { return nil }
        let ours = word.split(separator: "_", omittingEmptySubsequences: false).joined(separator: "-")
        let forms = [word, ours.replacing("password", with: "passphrase")]
        var best: (name: String, distance: Int)?
        // People seldom mistype the first letter, so of two names that are as near, one that begins alike wins.
        for name in names.filter({ $0.first == word.first }) + names {
            let plain = name.split(separator: "_", omittingEmptySubsequences: false).joined(separator: "-")
            let distance = forms.map { min(self.distance($0, name), self.distance($0, plain)) }.min() ?? .max
            if distance < best?.distance ?? .max { best = (name, distance) }
        }
        // One change in a short word, and two in a longer one.
        guard let best, best.distance <= (word.utf8.count < 5 ? 1 : 2) else { return nil }
        return best.name
    }

    /// The number of bytes that are inserted, removed, replaced or exchanged with their neighbour (optimal string alignment).
    private static func distance(_ one: String, _ other: String) -> Int {
        let (first, second) = (Array(one.utf8), Array(other.utf8))
        var rows = [Array(0...second.count)]
        for i in first.indices {
            var row = [i + 1]
            for j in second.indices {
                let isSame = first[i] == second[j]
                var cost = min(rows[i][j + 1] + 1, row[j] + 1, rows[i][j] + (isSame ? 0 : 1))
                if i > 0, j > 0, first[i] == second[j - 1], first[i - 1] == second[j] {
                    cost = min(cost, rows[i - 1][j - 1] + 1)
                }
                row.append(cost)
            }
            rows.append(row)
        }
        return rows[first.count][second.count]
    }
}
