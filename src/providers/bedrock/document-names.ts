/** Formats and names of documents as Converse takes them. */

/** The formats of Converse by media type; other texts are `txt`. */
export const FORMATS: ReadonlyMap<string, string> = new Map([
  ['application/pdf', 'pdf'],
  ['text/csv', 'csv'],
  ['application/msword', 'doc'],
  ['application/vnd.openxmlformats-officedocument.wordprocessingml.document', 'docx'],
  ['application/vnd.ms-excel', 'xls'],
  ['application/vnd.openxmlformats-officedocument.spreadsheetml.sheet', 'xlsx'],
  ['text/html', 'html'],
  ['text/plain', 'txt'],
  ['text/markdown', 'md'],
])

const NAME_CHARS_MAX = 200
/** For ` 1024` at the end. */
const NUMBER_CHARS = 6

/**
 * Names of the documents of one request: letters, digits, single blanks, hyphens, round and square brackets, at most
 * 200 of them, each name once. The same documents always get the same names.
 */
export class DocumentNames {
  private readonly given = new Map<string, number>()

  next(title = ''): string {
    const known = title
      .replace(/[^A-Za-z0-9\-()[\]]+/g, ' ')
      .trim()
      .slice(0, NAME_CHARS_MAX - NUMBER_CHARS)
      .trim()
    const name = known === '' ? 'document' : known
    let count = this.given.get(name) ?? 0
    let unique = name
    do {
      count++
      unique = count === 1 ? name : `${name} ${count}`
    } while (count > 1 && this.given.has(unique))
    this.given.set(name, count)
    if (unique !== name) this.given.set(unique, 1)
    return unique
  }
}
