/** The rows of tables of options: search finds each by the name of its option, and leads to it. */

/** Gives each row of an option an id, made of the heading above the table and the name. */
export function nameRows(tokens) {
  let heading = ''
  let column = ''
  for (const [index, token] of tokens.entries()) {
    if (token.type === 'heading_open') heading = token.attrGet('id')
    if (token.type === 'thead_open') column = tokens[index + 3].content
    if (column !== 'option' || token.type !== 'tr_open' || tokens[index + 1].type !== 'td_open') continue
    const [, name] = /^`(\w+)`(?: \*)?$/.exec(tokens[index + 2].content) ?? []
    if (name) token.attrSet('id', `${heading}-${name.toLowerCase()}`)
  }
}

/** typedoc's rows have an anchor inside. */
const ROW = /<tr(?: id="([^"]+)")?>\s*<td[^>]*>(?:<a id="([^"]+)"><\/a> )?<code>(\w+)\??<\/code>/g

/** For the search index, whose entries begin at headings: a heading in front of each row that a link can lead to. */
export function splitRows(html) {
  return html.replaceAll(ROW, (row, id, anchor, name) => {
    const target = id ?? anchor
    return target === undefined ? row : `<h4>${name}<a href="#${target}"></a></h4>${row}`
  })
}
