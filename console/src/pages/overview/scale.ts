/** The next round number that a scale of four steps can end with. */
export function niceTop(value: number): number {
  const unit = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 4, 8, 10]) if (value <= step * unit) return Math.max(4, step * unit);
  return 10 * unit;
}

export function pathOf(points: [number, number][]): string {
  return points.map(([x, y], index) => `${index ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`).join('');
}
