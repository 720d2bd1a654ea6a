import { Link } from '@tanstack/react-router';
import { Empty } from '../components/Empty';
import { t } from '../i18n';

export function NotFound() {
  return (
    <main className="page">
      <Empty icon="search" title={t('notfound')}>
        <Link to="/" className="btn">
          {t('nav.overview')}
        </Link>
      </Empty>
    </main>
  );
}
