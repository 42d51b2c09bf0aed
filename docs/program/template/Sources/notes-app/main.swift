// The command line of the notebook.

import Notes

#if canImport(FileProtection)
    import FileProtection
#else
    import Foundation
#endif

let words = CommandLine.arguments
guard words.count >= 2 else {
    print("Usage: notes-app FOLDER [NAME [TEXT]]")
    exit(2)
}
do {
    #if canImport(FileProtection)
        // The program's own Documents, Application Support and Caches, which an iPhone gives each application by itself.
        try ProtectedContainer.use(at: URL(fileURLWithPath: words[1]))
        let folder = FileManager.default.urls(for: .documentDirectory, in: .userDomainMask)[0]
    #else
        let folder = URL(fileURLWithPath: words[1])
    #endif
    let notebook = try Notebook(in: folder)
    switch words.count {
    case 2: try notebook.names().forEach { print($0) }
    case 3: print(try notebook.read(words[2]))
    default: try notebook.write(words[3...].joined(separator: " "), to: words[2])
    }
} catch let error as CocoaError where [.fileReadNoPermission, .fileWriteNoPermission].contains(error.code) {
    print("The notebook is locked.")
    exit(1)
}
