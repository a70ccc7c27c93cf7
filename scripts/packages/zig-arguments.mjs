/**
 * Arguments of a C compiler, as rustc and the crate `cc` give them, in the form that `zig cc` takes.
 */

/** Libraries of GCC's runtime, which zig has as LLVM's. */
const GCC_RUNTIME = new Set(['-lgcc', '-lgcc_eh', '-lgcc_s'])

/** Pure. `target` is zig's name of it, with the oldest C library: `x86_64-linux-gnu.2.17`. */
export function zigArguments(target, args) {
  const kept = args.filter((arg) => !isForeign(arg)).map((arg) => (GCC_RUNTIME.has(arg) ? '-lunwind' : arg))
  return ['cc', '-target', target, ...kept]
}

/** The target is given by zig's name, zig brings its own linker, and that one has no `noseparate-code`. */
function isForeign(arg) {
  return (
    arg.startsWith('--target=') ||
    arg === '-m64' ||
    arg.startsWith('-fuse-ld=') ||
    (arg.startsWith('-B') && arg.endsWith('gcc-ld')) ||
    arg.includes('noseparate-code')
  )
}
