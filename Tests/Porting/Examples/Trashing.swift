// Moves items to the trash as applications do.

import FileProtection

/// Moves the item of each word to the trash, and prints where it is and what its class is there.
func trash(in directory: URL, _ words: [String]) {
    for word in words {
        var place: NSURL?
        show(word) {
            try FileManager.default.trashItem(at: directory / word, resultingItemURL: &place)
            guard let path = place?.path else { return "nowhere" }
            return "\(path) \(try protection(of: URL(fileURLWithPath: path)))"
        }
    }
    step("without a result") {
        try Data("x".utf8).write(to: directory / "more")
        try FileManager.default.trashItem(at: directory / "more", resultingItemURL: nil)
    }
}
