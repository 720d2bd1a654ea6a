import { Button } from '../components/Button';
import { Modal } from '../components/Dialog';
import { type MessageKey, t } from '../i18n';
import { MOD } from './keys';
import { PAGES } from './pages';

const KEYS: [string, MessageKey][] = [
  ['/', 'keys.search'],
  [`${MOD} K`, 'keys.palette'],
  ['?', 'keys.title'],
  ['j k', 'keys.row'],
  ['↵', 'keys.open'],
  ['Space', 'keys.panel'],
  ['x ⇧x', 'keys.select'],
  ['r', 'keys.redrive'],
  ['c ⇧c', 'keys.copy'],
  ['n', 'keys.new'],
  ['.', 'keys.live'],
  ['[ ]', 'keys.step'],
  ['1–6', 'keys.tabs'],
  ['Esc', 'keys.close'],
];

export function KeysDialog({ onClose }: { onClose: () => void }) {
  const rows: [string, string][] = [
    ...KEYS.map(([key, word]): [string, string] => [key, t(word)]),
    ...PAGES.flat().map((page): [string, string] => [`g ${page.key}`, t(page.word)]),
  ];
  return (
    <Modal label={t('keys.title')} className="dialog" onClose={onClose}>
      <div className="body">
        <h2>{t('keys.title')}</h2>
        <dl className="keys">
          {rows.map(([key, word]) => (
            <div key={key} className="row">
              <dt className="row">
                {key.split(' ').map((each) => (
                  <kbd key={each}>{each}</kbd>
                ))}
              </dt>
              <dd>{word}</dd>
            </div>
          ))}
        </dl>
        <div className="ends">
          <Button autoFocus onClick={onClose}>
            {t('close')}
          </Button>
        </div>
      </div>
    </Modal>
  );
}
