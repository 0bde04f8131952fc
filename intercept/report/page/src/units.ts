// SPDX-License-Identifier: Apache-2.0

// One unit for all figures of a column or chart: the one that fits the largest.

export interface Unit {
  name: string;
  scale: number; // one of it, in the unit of the figures
  write: (value: number) => string;
}

function fit(most: number, step: number, names: string[]): Unit {
  let scale = 1;
  let i = 0;
  while (most / scale >= step && i < names.length - 1) {
    scale *= step;
    i++;
  }
  const digits = i === 0 && Number.isInteger(most) ? 0 : most / scale >= 100 ? 1 : 2;
  const least = 10 ** -digits;
  const write = (value: number) => (value === 0 ? "0" : Math.abs(value / scale) < least / 2 ? `<${least}` : (value / scale).toFixed(digits));
  return { name: names[i], scale, write };
}

export const time = (most: number): Unit => fit(most, 1000, ["ns", "us", "ms", "s"]);
export const bytes = (most: number): Unit => fit(most, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
export const rate = (most: number): Unit => fit(most, 1000, ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"]);
