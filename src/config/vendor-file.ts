import { type IniEntry, readIni } from './ini.ts';
import { NAMED_SECTIONS, SECTIONS, VENDOR_NAMES, type VendorName } from './names.ts';
import type { Problems } from './problems.ts';
import { keyOf, readSetting, type SettingGroup, type VendorSettings } from './settings.ts';
import { didYouMean } from './suggest.ts';

function same(left: string, right: string): boolean {
  return left.toLowerCase() === right.toLowerCase();
}

function fileNames(section: string): VendorName[] {
  return VENDOR_NAMES.filter((name) => name.section === section && name.key !== undefined);
}

/** The section an entry belongs to, or undefined once the reason was reported on the section's own line. */
function sectionOf(entry: IniEntry, where: string, problems: Problems): string | undefined {
  const section = SECTIONS.find((known) => same(known, entry.section));
  const report = entry.key === undefined;
  if (section === undefined) {
    if (report) {
      problems.error(
        where,
        `no section is named "${entry.section}"${didYouMean(entry.section, SECTIONS)}; known: ${SECTIONS.join(', ')}`,
      );
    }
    return undefined;
  }
  const named = NAMED_SECTIONS.has(section);
  if (named === (entry.name !== undefined)) return section;
  if (report) {
    problems.error(
      where,
      named
        ? `expected a name in quotes, as in [${section} "name"], got [${section}]`
        : `expected [${section}] without a name, got "${entry.name}"`,
    );
  }
  return undefined;
}

function readBlank(group: SettingGroup, name: VendorName, entry: IniEntry, where: string): string | undefined {
  if (name.type === 'boolean') {
    group.set(keyOf(name), { name, called: keyOf(name), value: true, where });
    return undefined;
  }
  if (name.type !== 'multi') return `${entry.key}: expected "=" and a value, got nothing`;
  group.delete(keyOf(name));
  return undefined;
}

/** Reads the vendor's file into `settings`. A name that the vendor does not know is an error, as it is there. */
export function readVendorFile(text: string, file: string, settings: VendorSettings, problems: Problems): void {
  for (const entry of readIni(text, file, problems)) {
    const where = `${file}:${entry.line}`;
    const section = sectionOf(entry, where, problems);
    if (section === undefined) continue;
    settings.inFile.add(section);
    const group = settings.group(section, entry.name, where);
    if (entry.key === undefined) continue;
    const names = fileNames(section);
    const name = names.find((known) => same(known.key ?? '', entry.key ?? ''));
    if (name === undefined) {
      const known = names.map((each) => each.key ?? '');
      problems.error(
        where,
        `no setting of [${section}] is named "${entry.key}"${didYouMean(entry.key, known)}; known: ${known.join(', ')}`,
      );
    } else if (entry.value === undefined) {
      const problem = readBlank(group, name, entry, where);
      if (problem !== undefined) problems.error(where, problem);
    } else {
      readSetting(group, name, { text: entry.value, called: keyOf(name), where, dialect: 'ini' }, problems);
    }
  }
}
