// Example 11: at launch the standard directories get the class that new files are to have.

import FileProtection

func standardDirectories() throws -> [URL] {
    let directories: [FileManager.SearchPathDirectory] = [
        .documentDirectory, .applicationSupportDirectory, .cachesDirectory,
    ]
    return try directories.map {
        try FileManager.default.url(for: $0, in: .userDomainMask, appropriateFor: nil, create: true)
    }
}

func protectAtLaunch(_ directory: URL) throws {
    try FileManager.default.setAttributes(
        [.protectionKey: FileProtectionType.complete],
        ofItemAtPath: directory.path
    )
}
