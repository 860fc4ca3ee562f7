/** Lines of CSV as RFC 4180 has them. */

/** Ends with a newline. */
export function csvLine(values: readonly (string | number | boolean)[]): string {
  return `${values.map(cell).join(',')}\n`
}

/** Quoted where it would end the cell. */
function cell(value: string | number | boolean): string {
  const text = String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
