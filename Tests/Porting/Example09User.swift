// Example 9: a user as JSON, saved complete.

import FileProtection

struct User: Codable, Equatable {
    var name: String
    var token: String
}

func saveUser(in directory: URL, _ words: [String]) throws {
    let user = User(name: "Ada", token: "0123")
    let url = directory.appendingPathComponent("user.json")
    let data = try JSONEncoder().encode(user)
    try data.write(to: url, options: [.atomic, .completeFileProtection])
    print(try JSONDecoder().decode(User.self, from: Data(contentsOf: url)) == user)
}
