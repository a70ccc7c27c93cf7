/** Sections of `bench/RESULTS.md` that other benchmarks write, and which each run preserves. */

/** The results of `bench/machines.mjs`. */
export const MACHINES = 'machines'

/** The results of `bench/mcp.mjs`. */
export const MCP = 'mcp'

const parts = (name) => new RegExp(`(<!-- ${name}:begin -->\n)(.*?)(\n<!-- ${name}:end -->)`, 's')

/** The text between the marks of a section. */
export function section(text, name) {
  return parts(name).exec(text)?.[2] ?? 'Not measured yet.'
}

export function replaceSection(text, name, content) {
  if (!parts(name).test(text)) throw new Error(`bench/RESULTS.md has no section ${name}`)
  return text.replace(parts(name), (_, begin, __, end) => `${begin}${content}${end}`)
}

/** A section with its marks. */
export function marked(name, content) {
  return `<!-- ${name}:begin -->\n${content}\n<!-- ${name}:end -->`
}
