/** Reads a table of CSV (RFC 4180) with a line of headings, as `psql` writes it. */

/** The rows by heading; a problem if a quote is not closed or a row is longer than the headings. */
export function readCsv(text: string): readonly Readonly<Record<string, string>>[] | { readonly problem: string } {
  const rows: string[][] = []
  let row: string[] = []
  let at = text.startsWith('\uFEFF') ? 1 : 0
  while (at < text.length) {
    let value = ''
    if (text[at] === '"') {
      for (at++; ; at++) {
        const end = text.indexOf('"', at)
        if (end < 0) return { problem: `a quote in row ${rows.length + 1} is not closed` }
        value += text.slice(at, end)
        at = end + 1
        if (text[at] !== '"') break
        value += '"'
      }
    } else {
      const end = /[,\r\n]/g
      end.lastIndex = at
      const found = end.exec(text)?.index ?? text.length
      value = text.slice(at, found)
      at = found
    }
    row.push(value)
    const isField = text[at] === ','
    if (isField) at++
    if (isField && at < text.length) continue
    if (isField) row.push('')
    if (text[at] === '\r') at++
    if (at < text.length && text[at] !== '\n') return { problem: `row ${rows.length + 1} has text after a quote` }
    at++
    if (row.length > 1 || row[0] !== '') rows.push(row)
    row = []
  }
  const [headings = [], ...others] = rows
  const long = others.findIndex((each) => each.length > headings.length)
  if (long >= 0) return { problem: `row ${long + 2} has more values than there are headings` }
  return others.map((each) => Object.fromEntries(headings.map((name, index) => [name.trim(), each[index] ?? ''])))
}
