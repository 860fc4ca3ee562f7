/** Lines of CSV (RFC 4180). */

/** One line with its newline. */
export function csvLine(values: readonly (string | number | boolean)[]): string {
  return `${values.map(cell).join(',')}\n`
}

/** Quoted if it has a character that would end the cell. */
function cell(value: string | number | boolean): string {
  const text = String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
