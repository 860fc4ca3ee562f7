/** Formats rows of short ASCII words as aligned columns. */

/** Columns from `numbersFrom` on are aligned to the right. Ends with a newline. */
export function table(rows: readonly (readonly string[])[], numbersFrom: number): string {
  const widths: number[] = []
  for (const row of rows) {
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length)
  }
  const lines = rows.map((row) =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0
        return column < numbersFrom ? cell.padEnd(width) : cell.padStart(width)
      })
      .join('  ')
      .trimEnd(),
  )
  return `${lines.join('\n')}\n`
}
