/** Media types of images as providers take them. */

/** `image/jpg` is a common misspelling that strict providers refuse, as they do capitals. */
export function mediaType(given: string): string {
  const type = given.toLowerCase()
  return type === 'image/jpg' ? 'image/jpeg' : type
}
