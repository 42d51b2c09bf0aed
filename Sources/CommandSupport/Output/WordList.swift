// Lists of words in a sentence.

extension [String] {
    /// The words as a sentence lists them: `a, b or c`.
    package func joined(last: String) -> String {
        count < 2 ? joined() : dropLast().joined(separator: ", ") + " \(last) " + self[count - 1]
    }
}
