// Effective values, where each comes from, and a sentence for each key.
import type { components } from '../../api/schema';
import { Segments } from '../../components/Controls';
import { Icon } from '../../components/Icon';
import type { Meaning } from '../../components/Status';
import { has, type MessageKey, t } from '../../i18n';
import { useUrl } from '../../lib/url';

type Setting = components['schemas']['Setting'];
const ORIGINS: Record<string, Meaning> = { file: 'info', environment: 'human', flag: 'part', default: 'idle' };

export function Configuration({ settings }: { settings: Setting[] }) {
  const [search, change] = useUrl();
  const changed = settings.filter((each) => each.origin !== 'default');
  const only = search.config === 'changed';
  const shown = (only ? changed : settings).filter((each) => each.key.includes(search.find ?? ''));
  const sentence = (key: string) => (has(`config.${key}`) ? t(`config.${key}` as MessageKey) : '');
  return (
    <section className="card">
      <header>
        <h2>{t('system.config')}</h2>
        <span className="meta grow">{t('system.config.text')}</span>
        <span className="find">
          <Icon name="search" size={14} />
          <input
            className="input"
            aria-label={t('system.find')}
            placeholder={t('system.find')}
            value={search.find ?? ''}
            onChange={(event) => change({ find: event.target.value || undefined }, true)}
          />
        </span>
        <Segments
          label={t('system.config')}
          value={only ? 'changed' : 'all'}
          onChange={(value) => change({ config: value === 'all' ? undefined : value })}
          options={[
            { value: 'all', label: `${t('all')} ${settings.length}` },
            { value: 'changed', label: `${t('system.changed')} ${changed.length}` },
          ]}
        />
      </header>
      <div className="scroll-x">
        <table className="table config">
          <tbody>
            {shown.map((each) => (
              <tr key={each.key}>
                <td className="mono">{each.key}</td>
                <td className="mono">{each.value || <span className="t3">–</span>}</td>
                <td>
                  <span className={`tag m-${ORIGINS[each.origin] ?? 'idle'}`}>
                    {each.origin === 'file' ? 'postrider.toml' : each.origin}
                  </span>
                </td>
                <td className="t2">{sentence(each.key)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
