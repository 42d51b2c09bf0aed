// Example 7: a public thumbnail, readable before the first unlock.

import FileProtection

func saveThumbnail(_ image: Data, to url: URL) throws {
    try image.write(to: url, options: [.atomic, .noFileProtection])
}

func thumbnail(at url: URL) throws -> Data {
    try Data(contentsOf: url)
}
