/** Dates and times of the file → Unix milliseconds. */

const FORM = /^(\d{4})-(\d{2})-(\d{2})(?:[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2}))?$/

/**
 * Unix milliseconds of a date (its first moment in UTC) or an RFC 3339 time; undefined for anything else and for a
 * day that does not exist.
 */
export function instant(text: string): number | undefined {
  const parts = FORM.exec(text)
  if (parts === null) return undefined
  const [year, month, day] = parts.slice(1, 4).map(Number)
  const exists = new Date(Date.UTC(year ?? 0, (month ?? 0) - 1, day)).getUTCDate() === day && (month ?? 0) <= 12
  const ms = Date.parse(parts[4] === undefined ? `${text}T00:00:00Z` : text.toUpperCase().replace(' ', 'T'))
  return exists && Number.isFinite(ms) ? ms : undefined
}
