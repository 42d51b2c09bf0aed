// Lists of words in a sentence, and numbers with their nouns.

extension [String] {
    /// The words as a sentence lists them: `a, b or c`.
    package func joined(last: String) -> String {
        count < 2 ? joined() : dropLast().joined(separator: ", ") + " \(last) " + self[count - 1]
    }
}

/// A number and its noun: `1 file`, `2 files`.
package func counted(_ number: some BinaryInteger, _ one: String, _ several: String? = nil) -> String {
    "\(number) \(number == 1 ? one : several ?? one + "s")"
}
