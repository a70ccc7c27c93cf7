/** True for `root` and everything below it. Both are absolute paths without dots. */
export function isWithin(file: string, root: string): boolean {
  return file === root || root === '/' || file.startsWith(`${root}/`)
}
