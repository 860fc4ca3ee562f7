/** The media types of documents, with the extension of each. */

const TYPES: Readonly<Record<string, string>> = {
  pdf: 'application/pdf',
  txt: 'text/plain',
  md: 'text/markdown',
  html: 'text/html',
  htm: 'text/html',
  csv: 'text/csv',
  tsv: 'text/tab-separated-values',
  xml: 'text/xml',
  json: 'application/json',
  rtf: 'application/rtf',
  doc: 'application/msword',
  docx: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  xls: 'application/vnd.ms-excel',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  ppt: 'application/vnd.ms-powerpoint',
  pptx: 'application/vnd.openxmlformats-officedocument.presentationml.presentation',
  odt: 'application/vnd.oasis.opendocument.text',
}

/** Extensions of texts that have no media type of their own. */
const PLAIN =
  /^(?:log|py|js|mjs|ts|tsx|jsx|java|kt|c|cc|cpp|h|hpp|cs|go|rs|rb|php|swift|sh|sql|ya?ml|toml|ini|css|tex|diff)$/

const EXTENSIONS = new Map(
  Object.entries(TYPES)
    .reverse()
    .map(([extension, type]) => [type, extension]),
)

export const PDF = 'application/pdf'

/** The type of a file or address by the extension of its name; undefined if that is not known. */
export function typeByExtension(name: string): string | undefined {
  const extension = /\.([a-z]{1,5})(?:[?#]|$)/i.exec(name)?.[1]?.toLowerCase() ?? ''
  if (PLAIN.test(extension)) return TYPES['txt']
  return Object.hasOwn(TYPES, extension) ? TYPES[extension] : undefined
}

/** `pdf` for `application/pdf`; undefined for a type that is not in the table. */
export function extensionOf(type: string): string | undefined {
  return EXTENSIONS.get(type)
}

const TEXT_OF_APPLICATIONS =
  /^application\/(?:(?:[\w.-]+\+)?(?:json|xml|yaml)|x-yaml|javascript|x-javascript|typescript|x-sh|sql|toml)$/

/** Whether a document of this type is text in UTF-8. */
export function isTextType(type: string): boolean {
  return type.startsWith('text/') || TEXT_OF_APPLICATIONS.test(type)
}
