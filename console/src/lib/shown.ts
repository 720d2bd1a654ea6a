// Invisible characters that hide or reverse the text beside them: controls and marks of direction.
const UNSEEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

/** A text from elsewhere with such characters written out, as in `a\u0000b`. What is copied or sent keeps them. */
export function shown(text: string): string {
  return text.replace(UNSEEN, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
