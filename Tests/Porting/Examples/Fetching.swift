// Downloads of URLSession: the finished file is moved to where it is kept.

import FileProtection
import FoundationNetworking

/// Words: the address, and the name to keep it under.
func fetched(in directory: URL, _ words: [String]) throws {
    guard let address = URL(string: words[0]) else { return }
    let done = DispatchSemaphore(value: 0)
    let task = URLSession.shared.downloadTask(with: address) { place, _, error in
        if let error { print("download: \(outcome(of: error))") }
        if let place {
            show("class before") { try protection(of: place) }
            step("moved") { try FileManager.default.moveItem(at: place, to: directory / words[1]) }
            print("still there: \(FileManager.default.fileExists(atPath: place.path))")
        }
        done.signal()
    }
    task.resume()
    done.wait()
}
