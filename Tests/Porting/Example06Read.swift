// Example 6: reading what may be closed: nil through `try?`, error 257 through `catch`.

import FileProtection

func readSensitiveData(in directory: URL, _ words: [String]) throws {
    let url = directory.appendingPathComponent(words[0])
    print((try? Data(contentsOf: url)) == nil ? "nil" : "data")
    do {
        let data = try Data(contentsOf: url)
        print(String(decoding: data, as: UTF8.self))
    } catch let error as CocoaError where error.code == .fileReadNoPermission {
        if error.isProtectedDataUnavailable {
            print("closed until unlock:", outcome(of: error))
        } else {
            print("a problem of permissions:", outcome(of: error))
        }
    }
    step("handle") { try FileHandle(forReadingFrom: url).close() }
    step("string") { _ = try String(contentsOf: url, encoding: .utf8) }
    print(FileManager.default.contents(atPath: url.path) == nil ? "no contents" : "contents")
}
