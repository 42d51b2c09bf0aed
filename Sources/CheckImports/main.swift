// check-imports lists files that import Foundation instead of FileProtection. Exit code: 0 none, 1 some, 2 the search
// failed.

import CLibrary
import HostSystem
import ImportCheck

let help = """
    Usage: check-imports [--stdin] [FILE|DIRECTORY]…

    Lists files in which protection classes have no effect, because they import Foundation, or a module that
    exports it, instead of FileProtection or in addition to it. Each line is PATH:LINE: PROBLEM. Directories are
    searched for Swift files, except hidden ones. The default is the working directory.

      --stdin  read the paths from standard input, one per line
      --help   show this

    A file with the comment “// \(ImportCheck.exception): REASON” is not listed.
    The exit code is 0 if no file is listed, 1 if one is, and 2 if a file could not be read.
    """

var paths: [HostPath] = []
var standardInput = false
for word in CommandLine.arguments.dropFirst() {
    switch word {
    case "--help", "-h":
        print(help)
        exit(0)
    case "--stdin": standardInput = true
    case _ where word.hasPrefix("-"):
        Search.complain("unknown option \(word); see --help")
        exit(2)
    default: paths.append(HostPath(word))
    }
}
if standardInput { while let line = readLine() { paths.append(HostPath(line)) } }
if paths.isEmpty, !standardInput { paths = [HostPath(".")] }

var search = Search()
for path in paths { search.visit(path, named: true) }
Search.complain("\(search.files) files, \(search.excepted) excepted, \(search.found) findings")
exit(search.unread > 0 ? 2 : search.found > 0 ? 1 : 0)
