// Three kinds of nothing: nothing yet, hidden by filters, not found so far.
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { counts } from '../../api/queries';
import { Button } from '../../components/Button';
import { Empty } from '../../components/Empty';
import { type MessageKey, t } from '../../i18n';
import { storeNow } from '../../lib/clock';
import { counted, number } from '../../lib/format';
import type { Search } from '../../lib/url';
import { chipsOf, filterOf, NAMES } from './filters';

type Props = {
  search: Search;
  more: string | null;
  scanned?: number;
  onClear: (part: Record<string, string | undefined>) => void;
  onMore: (cursor: string) => void;
};

export function EmptyList({ search, more, scanned, onClear, onMore }: Props) {
  const whole = useQuery({ ...counts({}), retry: false }).data;
  const active = Object.keys(NAMES).filter((name) => search[name]);
  if (search.range) active.push('range');
  const [first] = chipsOf(search);
  const rest = filterOf({ ...search, [first?.[0] ?? '']: '' }, storeNow());
  const without = useQuery({ ...counts(rest), enabled: !!first && !more, retry: false }).data;
  const name = first && `${t(`filter.${first[0]}` as MessageKey)} ${first[1]}`;
  if (more) {
    return (
      <Empty
        icon="search"
        title={scanned === undefined ? t('empty.looked.some') : t('empty.looked', { n: number(scanned) })}
        text={t('empty.looked.text')}
      >
        <Button small onClick={() => onMore(more)}>
          {t('empty.looked.more')}
        </Button>
      </Empty>
    );
  }
  if (active.length === 0) {
    return (
      <Empty icon="list" title={t('first.title')} text={t('empty.first')}>
        <Link to="/" className="btn small">
          {t('empty.how')}
        </Link>
      </Empty>
    );
  }
  return (
    <Empty
      icon="filter"
      title={whole ? t('empty.hidden', { n: counted(whole.total) }) : t('empty.hidden.some')}
      text={name && without && t('empty.without', { f: name, n: counted(without.total) })}
    >
      {first && name && (
        <Button small onClick={() => onClear({ [first[0]]: undefined })}>
          {t('empty.remove', { f: name })}
        </Button>
      )}
      <Button small kind="quiet" onClick={() => onClear(Object.fromEntries(active.map((name) => [name, undefined])))}>
        {t('empty.clear')}
      </Button>
    </Empty>
  );
}
