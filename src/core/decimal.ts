/** Decimal numbers as they are written: moved by powers of ten without the noise of binary fractions. */

/** `2.5e-7` by 6 places → `0.25`. Undefined if it is not a decimal number of a usual size. */
export function shifted(written: unknown, places: number): string | undefined {
  const text = typeof written === 'number' ? String(written) : typeof written === 'string' ? written.trim() : ''
  const [, sign, whole, fraction = '', exponent = '0'] =
    /^([+-]?)(\d+)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?$/.exec(text) ?? []
  if (whole === undefined) return undefined
  const digits = whole + fraction
  const point = whole.length + Number(exponent) + places
  const padded = point > 0 ? digits.padEnd(point, '0') : digits.padStart(digits.length - point + 1, '0')
  const at = Math.max(1, point)
  const integer = padded.slice(0, at).replace(/^0+(?=\d)/, '')
  const rest = padded.slice(at).replace(/0+$/, '')
  return `${sign === '-' ? '-' : ''}${integer}${rest === '' ? '' : `.${rest}`}`
}

/** Whole micro-dollars of dollars, rounded to the nearest; undefined if it is no amount, or too large to be exact. */
export function microDollars(dollars: unknown): number | undefined {
  const [, whole, fraction] = /^(\d{1,16})(?:\.(\d+))?$/.exec(shifted(dollars, 6) ?? '') ?? []
  if (whole === undefined) return undefined
  const micro = Number(whole) + (Number(fraction?.[0] ?? 0) >= 5 ? 1 : 0)
  return Number.isSafeInteger(micro) ? micro : undefined
}
