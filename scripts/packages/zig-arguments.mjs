/**
 * Translates C compiler arguments from rustc and the crate `cc` to the form that `zig cc` takes.
 */

/** Libraries of GCC's runtime, which zig replaces by LLVM's. */
const GCC_RUNTIME = new Set(['-lgcc', '-lgcc_eh', '-lgcc_s'])

/** `target` is zig's name for it, with the oldest C library: `x86_64-linux-gnu.2.17`. Pure. */
export function zigArguments(target, args) {
  const kept = args.filter((arg) => !isForeign(arg)).map((arg) => (GCC_RUNTIME.has(arg) ? '-lunwind' : arg))
  return ['cc', '-target', target, ...kept]
}

/** The target has zig's name, and zig has its own linker, which does not support `noseparate-code`. */
function isForeign(arg) {
  return (
    arg.startsWith('--target=') ||
    arg === '-m64' ||
    arg.startsWith('-fuse-ld=') ||
    (arg.startsWith('-B') && arg.endsWith('gcc-ld')) ||
    arg.includes('noseparate-code')
  )
}
