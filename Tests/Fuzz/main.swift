// The fuzzing program. `fuzz` lists its targets; `fuzz TARGET --seeds DIRECTORY` writes the target's own inputs;
// `fuzz TARGET ARGUMENT…` is libFuzzer with that target.

import CLibFuzzer
import Glibc

let words = CommandLine.arguments
guard words.count > 1 else {
    for (name, _) in targets { print(name) }
    exit(0)
}
guard let target = targets.first(where: { $0.name == words[1] })?.target else {
    fatalError("there is no target \(words[1])")
}
if words.count == 4, words[2] == "--seeds" {
    for (index, seed) in target.seeds().enumerated() {
        guard let file = unsafe fopen("\(words[3])/seed-\(index)", "w") else { exit(1) }
        unsafe fwrite(seed, 1, seed.count, file)
        unsafe fclose(file)
    }
    exit(0)
}

var count = CommandLine.argc - 1
var arguments = unsafe Optional(CommandLine.unsafeArgv + 1)
unsafe chosen = target
exit(unsafe LLVMFuzzerRunDriver(&count, &arguments, fuzzOneInput))
