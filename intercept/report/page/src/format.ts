// SPDX-License-Identifier: Apache-2.0

// How figures are written.

function scaled(value: number, step: number, names: string[]): string {
  let i = 0;
  while (Math.abs(value) >= step && i < names.length - 1) {
    value /= step;
    i++;
  }
  const digits = i === 0 || Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return `${value.toFixed(Number.isInteger(value) ? 0 : digits)} ${names[i]}`;
}

const timeUnits = ["ns", "us", "ms", "s"];
export const time = (ns: number): string => scaled(ns, 1000, timeUnits);

// Unit is a unit of an axis of times.
export interface Unit {
  name: string;
  ns: number;
}

// unitFor is the largest unit of which a time has at least 2.
export function unitFor(ns: number): Unit {
  let unit = { name: timeUnits[0], ns: 1 };
  for (const name of timeUnits.slice(1)) {
    if (ns >= 2000 * unit.ns) {
      unit = { name, ns: 1000 * unit.ns };
    }
  }
  return unit;
}

// period writes the begin and the end of a time in one unit.
export function period(begin: number, end: number): string {
  const { name, ns } = unitFor(end);
  const figure = (t: number) => String(Number((t / ns).toPrecision(4)));
  return `${figure(begin)} to ${figure(end)} ${name}`;
}

// since writes how long ago something was, from tenths of a second to days.
export function since(ns: number): string {
  const s = ns / 1e9;
  const [minutes, hours] = [Math.floor(s / 60), Math.floor(s / 3600)];
  if (s < 60) {
    return `${s.toFixed(1)} s`;
  }
  return hours < 1 ? `${minutes} min ${Math.floor(s % 60)} s` : hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days ${hours % 24} h`;
}
export const bytes = (n: number): string => scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
// rate writes a rate; none is what stands for 0.
export const rate = (bps: number, none = "unlimited"): string => (bps === 0 ? none : scaled(bps, 1000, ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"]));
export const count = (n: number, noun: string): string => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
export const percent = (share: number): string => `${(100 * share).toFixed(share !== 0 && Math.abs(share) < 0.1 ? 1 : 0)} %`;
