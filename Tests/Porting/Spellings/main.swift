// Runs each spelling on the mount that is the argument, and says whether it found what it had stored.

import FileProtection
import Secrets

guard CommandLine.arguments.count == 2, SecretsMount.use(CommandLine.arguments[1]) else {
    print("FAILED no mount")
    exit(1)
}
let spellings: [(String, () -> Data?)] = [
    ("a dictionary of AnyObject", dictionaryOfObjects), ("a dictionary of NSObject", dictionaryOfNSObjects),
    ("constants as keys", constantsAsKeys), ("a mutable dictionary", mutableDictionary),
    ("values of Any", valuesOfAny), ("constants as strings", constantsAsStrings),
    ("constants in structures", constantsInStructures), ("contexts", contexts),
]
for (name, spelling) in spellings {
    print(spelling() == Data("a secret".utf8) ? "ok \(name)" : "FAILED \(name)")
}
