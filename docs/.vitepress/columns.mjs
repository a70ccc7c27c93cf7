/**
 * Gives each cell of a table the name of its column, which theme/tables.css shows on phones. A header without text becomes a
 * cell: screen readers expect text in a header.
 */
export function nameColumns(tokens) {
  let names = []
  let column = 0
  for (const [index, token] of tokens.entries()) {
    if (token.type === 'thead_open') names = []
    if (token.type === 'tr_open') column = 0
    if (token.type === 'th_open') {
      const name = tokens[index + 1].content.replaceAll('`', '')
      names.push(name)
      if (name === '') token.tag = tokens[index + 2].tag = 'td'
    }
    if (token.type !== 'td_open') continue
    const name = names[column++]
    if (name && tokens[index + 1].content !== '') token.attrSet('data-column', name)
  }
}
